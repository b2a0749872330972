import * as fc from 'fast-check'
import { actorKindOf } from './access-rules.ts'
import { type Operation, resolved, type Schema } from './operations.ts'
import { type Recipe, recipeOf, type Reference, referencesOf } from './recipes.ts'

/** A name and what stands for it: JSON text in a body, plain text in a query or form. */
type Member = readonly [name: string, text: string]

/** Whose id a request holds; or what stands there in its place. */
type Id = 'own' | 'foreign' | 'missing' | { odd: string }

/** A request to try, symbolic where the running service decides: plain data, so that it can be shrunk and shown. */
export interface Case {
  actor: 'owner' | 'member' | 'stranger' | 'key' | 'function' | 'garbage' | 'nobody'
  /** For each reference of the operation. */
  ids: Id[]
  query: Member[]
  headers: Record<string, string>
  body: { members: Member[] } | { raw: string } | undefined
}

const deep = (levels: number, [open, close]: readonly [string, string]) =>
  `${open.repeat(levels)}1${close.repeat(levels)}`

/** Texts that have broken services before, kind by kind, so that each kind is tried as often. */
const oddTexts: readonly (readonly string[])[] = [
  ['\0', 'a\0b'],
  ['\u0001\u001f\u007f\u0085', '\r\nx: y', ' ', ''],
  ['\ud800', 'x\udc00', '\udc00\ud800'],
  ['\u202e\u200f\ufeff\u2028', 'e\u0301\u1e9b\u0323', '👩‍👩‍👧‍👦'.repeat(30), 'ﷺ'.repeat(200), 'İſK'],
  ['__proto__', 'constructor', 'toString', 'null', 'undefined'],
  ['..', '../../etc/passwd', "'; drop table organizations; --", '${7*7}{{7*7}}<script>', '%00', '%s%n'],
  ['NaN', '-0', '1e3', '٣', '0x10', '9'.repeat(400), '2147483648', '9223372036854775808'],
  ['x'.repeat(256), 'x'.repeat(3_000)],
  [
    '00000000-0000-0000-0000-000000000000',
    'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF',
    '{0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10}',
    'urn:uuid:0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
    '0199a3f05b7c7cc09d3f2f6f5c1b7a10',
  ],
  [
    '2026-02-30T00:00:00.000Z',
    '2026-11-21T09:30:00Z',
    '0000-01-01T00:00:00.000Z',
    '9999-12-31T23:59:59.999Z',
    '+275760-09-13T00:00:00.000Z',
  ],
]

const anyText = fc.oneof(
  { arbitrary: fc.oneof(...oddTexts.map((texts) => fc.constantFrom(...texts))), weight: 2 },
  fc.oneof(fc.string({ unit: 'grapheme', maxLength: 300 }), fc.string({ unit: 'binary', maxLength: 40 })),
)

/** Values of a body as JSON text, since not all that JSON can say survives being a JavaScript value. */
const oddJson = fc.oneof(
  { arbitrary: anyText.map((text) => JSON.stringify(text)), weight: 3 },
  fc.json({ maxDepth: 3 }),
  fc.constantFrom(
    'null',
    'true',
    '0',
    '-1',
    '-0',
    '1.5',
    '1e999',
    '1e-400',
    '9007199254740993',
    '1'.repeat(400),
    '"\\ud800"',
    '"\\u0000"',
    `"${'\\u0000'.repeat(5_000)}"`,
    `"${'x'.repeat(70_000)}"`,
    '[]',
    '{}',
    '[null]',
    '["a","a"]',
    `[${'"x",'.repeat(150)}"x"]`,
    '{"__proto__":{"admin":true}}',
    '{"constructor":{"prototype":{"admin":true}}}',
    deep(100, ['[', ']']),
    deep(20_000, ['[', ']']),
    deep(20_000, ['{"a":', '}']),
  ),
)

/** Text that a schema allows; where it cannot be told from the schema, near it. Its example often, so that some meet. */
function textOf(schema: Schema & { pattern?: string; minLength?: number; maxLength?: number }): fc.Arbitrary<string> {
  const { pattern, example, minLength = 0, maxLength = 100 } = schema
  if (schema.enum) return fc.constantFrom(...schema.enum.map(String))
  if (schema.format === 'uuid') return fc.uuid()
  if (schema.format === 'date-time')
    return fc
      .date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true })
      .map((date) => date.toISOString())
  const made =
    pattern === undefined
      ? fc.string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, 1_000) })
      : fc.stringMatching(new RegExp(pattern, 'u'))
  return typeof example === 'string' ? fc.oneof(fc.constant(example), made) : made
}

/** JSON text that a schema allows. */
function jsonOf(options: Schema): fc.Arbitrary<string> {
  const schema = resolved(options) as Schema & {
    minimum?: number
    maximum?: number
    maxItems?: number
  }
  const right = ((): fc.Arbitrary<string> => {
    switch (schema.type) {
      case 'integer':
        return fc.integer({ min: schema.minimum ?? -10, max: schema.maximum ?? 1_000_000 }).map(String)
      case 'number':
        return fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => JSON.stringify(n))
      case 'boolean':
        return fc.boolean().map(String)
      case 'array': {
        const listed = Array.isArray(schema.example) ? fc.constant(JSON.stringify(schema.example)) : fc.constant('[]')
        const items = fc.array(jsonOf(schema.items ?? {}), { maxLength: Math.min(schema.maxItems ?? 5, 5) })
        return fc.oneof(
          listed,
          items.map((texts) => `[${texts.join(',')}]`),
        )
      }
      case 'object':
        return membersOf(schema).map((members) => objectText(members))
      default:
        return textOf(schema).map((text) => JSON.stringify(text))
    }
  })()
  return schema.nullable ? fc.oneof({ arbitrary: right, weight: 4 }, fc.constant('null')) : right
}

export const objectText = (members: readonly Member[]): string =>
  `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`

/** The required members of an object and `keep`; in half of all cases some of the others, too. */
function membersOf(schema: Schema, keep: readonly string[] = [], of = jsonOf): fc.Arbitrary<Member[]> {
  const names = Object.keys(schema.properties ?? {})
  const least = names.filter((name) => schema.required?.includes(name) || keep.includes(name))
  const some = (from: readonly string[]) =>
    fc
      .record(Object.fromEntries(from.map((name) => [name, of(schema.properties?.[name] ?? {})])), {
        requiredKeys: least,
      })
      .map((record) => Object.entries(record) as Member[])
  return fc.oneof(some(least), some(names))
}

type Edit =
  | { kind: 'drop' | 'replace' | 'repeat'; at: number; text: string }
  | { kind: 'add'; name: string; text: string }

/** known: names that mean something to the operation. */
function editOf(text: fc.Arbitrary<string>, known: readonly string[]): fc.Arbitrary<Edit> {
  const add = (name: fc.Arbitrary<string>) => fc.record({ kind: fc.constant('add' as const), name, text })
  return fc.oneof(
    {
      arbitrary: fc.record({ kind: fc.constantFrom('replace', 'replace', 'repeat', 'drop'), at: fc.nat(9), text }),
      weight: 2,
    },
    { arbitrary: add(fc.constantFrom(...known, ...known, 'unknown', '__proto__')), weight: 2 },
    add(anyText),
  )
}

function edited(members: readonly Member[], edits: readonly Edit[]): Member[] {
  const changed = [...members]
  for (const edit of edits) {
    if (edit.kind === 'add') {
      const options = changed.findIndex(([name]) => name === edit.name)
      changed.splice(options < 0 ? changed.length : options, 1, [edit.name, edit.text])
      continue
    }
    const position = edit.at % Math.max(changed.length, 1)
    const member = changed[position]
    if (!member) continue
    if (edit.kind === 'drop') changed.splice(position, 1)
    if (edit.kind === 'replace') changed[position] = [member[0], edit.text]
    if (edit.kind === 'repeat') changed.push([member[0], edit.text])
  }
  return changed
}

/** Right members, in half of all cases with something done to them, mostly one thing. */
function withEdits(
  members: fc.Arbitrary<Member[]>,
  text: fc.Arbitrary<string>,
  known: readonly string[],
): fc.Arbitrary<Member[]> {
  const edit = editOf(text, known)
  const edits = fc.oneof(
    { arbitrary: fc.constant([]), weight: 4 },
    { arbitrary: edit.map((one) => [one]), weight: 3 },
    fc.array(edit, { minLength: 2, maxLength: 4 }),
  )
  return fc.tuple(members, edits).map(([right, done]) => edited(right, done))
}

const rawBodies = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '{',
    '[]',
    '"x"',
    'null',
    '1',
    '{"a":1}x',
    "{'a':1}",
    '\ufeff{}',
    '{"a":1,}',
    '\xff',
    '{}{}',
  ),
  fc.string({ unit: 'binary', maxLength: 100 }),
  fc.constant(deep(20_000, ['[', ']'])),
  fc.constant(`{"name":"${'x'.repeat(600_000)}"}`),
)

const contentTypes = [
  'application/JSON; charset=utf-8',
  'application/json;charset=latin1',
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/json, text/plain',
  'json',
  '',
  ';',
]
const latin = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0xff })
    .filter((code) => code !== 0x7f)
    .map((code) => String.fromCodePoint(code)),
  maxLength: 60,
})
const oddHeaders: Record<string, fc.Arbitrary<string>> = {
  'content-type': fc.constantFrom(...contentTypes),
  'idempotency-key': fc.oneof(fc.constantFrom('a', '"a"', '', 'k'.repeat(300)), fc.uuid(), latin),
  'if-none-match': fc.oneof(fc.constantFrom('*', 'W/"x"', '"', ', ,'), latin),
  'x-request-id': fc.oneof(fc.constantFrom('abc-1', ''), latin),
  'x-organization-id': fc.oneof(fc.uuid(), latin),
  accept: fc.constantFrom('text/html', 'application/xml', '*/*;q=0'),
  origin: fc.constantFrom('null', 'https://evil.example.com'),
}
/** None, or one of them, or some. */
const headers: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { arbitrary: fc.constant({}), weight: 14 },
  ...Object.entries(oddHeaders).map(([name, value]) => ({
    arbitrary: value.map((text): Record<string, string> => ({ [name]: text })),
    weight: 1,
  })),
  { arbitrary: fc.record(oddHeaders, { requiredKeys: [] }) as fc.Arbitrary<Record<string, string>>, weight: 2 },
)

/** Segments of a path that are no ids; sent as they are. */
const segments = fc.oneof(
  fc.constantFrom(
    '',
    '%00',
    '%2e%2e',
    '..',
    '%2F',
    '%ff',
    '%',
    '%zz',
    '%ed%a0%80',
    '*',
    ':id',
    '{id}',
    ';',
    '&',
    'pull',
  ),
  anyText.map((text) => encodeURIComponent(text.toWellFormed())),
)

const idOf = ({ on, thing }: Reference): fc.Arbitrary<Id> =>
  fc.oneof(
    { arbitrary: fc.constant<Id>('own'), weight: 12 },
    // A thing that is everybody's has no foreign one; edits make the ids of queries and bodies odd.
    { arbitrary: fc.constant<Id>(thing.isShared ? 'own' : 'foreign'), weight: 2 },
    { arbitrary: fc.constant<Id>('missing'), weight: 1 },
    { arbitrary: on === 'path' ? segments.map((odd): Id => ({ odd })) : fc.constant<Id>('own'), weight: 2 },
  )

/** The members that name something are there and empty: whoever sends the case fills them in. */
const withoutIds = (members: Member[], names: readonly string[]): Member[] =>
  members.filter(([name]) => !names.includes(name))

/** Text that a schema allows where it stands in a query or form: without the quotes of JSON. */
const plainOf = (schema: Schema): fc.Arbitrary<string> =>
  jsonOf(schema).map((text) => (text.startsWith('"') ? (JSON.parse(text) as string) : text))

/** Requests to try an operation with: most nearly right, since what is wrong everywhere is refused at the door. */
export function casesOf(operation: Operation): fc.Arbitrary<Case> {
  const isGuarded = operation.security.length > 0
  const recipe: Recipe = isGuarded ? recipeOf(operation) : {}
  const references = isGuarded ? referencesOf(operation) : []
  const namesOf = (on: Reference['on']) => references.filter((reference) => reference.on === on).map(({ name }) => name)

  const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query')
  const querySchema: Schema = {
    type: 'object',
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema])),
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
  }
  const query = membersOf(querySchema, Object.keys(recipe.query?.({}) ?? {}), plainOf).map((members) =>
    withoutIds(members, namesOf('query')),
  )
  const [type = '', content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? []
  const isJson = type === 'application/json'
  const credentials = isJson ? [] : ['client_id', 'client_secret']
  const whole = resolved(content?.schema ?? {})
  // Of a body that may come in several forms, an object.
  const object = whole.anyOf?.map(resolved).find(({ type }) => type === 'object') ?? whole
  const properties = object.properties ?? {}
  const members = membersOf(object, credentials, isJson ? jsonOf : plainOf).map((right) =>
    withoutIds(right, namesOf('body')),
  )
  const body: fc.Arbitrary<Case['body']> = content
    ? fc.oneof(
        {
          arbitrary: withEdits(members, isJson ? oddJson : anyText, Object.keys(properties)).map((edited) => ({
            members: edited,
          })),
          weight: 9,
        },
        { arbitrary: rawBodies.map((raw) => ({ raw })), weight: 1 },
      )
    : fc.oneof(
        { arbitrary: fc.constant(undefined), weight: 9 },
        rawBodies.map((raw) => ({ raw })),
      )

  return fc.record({
    actor: fc.oneof(
      {
        arbitrary: fc.constant(actorKindOf(operation) === 'function' ? ('function' as const) : ('owner' as const)),
        weight: 12,
      },
      { arbitrary: fc.constantFrom('member' as const, 'key' as const, 'function' as const), weight: 6 },
      { arbitrary: fc.constantFrom('stranger' as const, 'garbage' as const, 'nobody' as const), weight: 2 },
    ),
    ids: fc.tuple(...references.map(idOf)),
    query: withEdits(query, anyText, Object.keys(querySchema.properties ?? {})),
    headers,
    body,
  })
}
