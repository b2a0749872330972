import { randomUUID } from 'node:crypto'
import { everyScope, type Person, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { endpoints } from '../src/endpoints.ts'
import { setMember } from '../src/areas/tenancy/organizations/members.ts'
import { setQuota } from '../src/areas/tenancy/products/quotas.ts'
import { actorKindOf, type Asker, expectedAnswer, satisfying, scopesFor, type Whose } from './access-rules.ts'
import { faultsOfAnswer } from './answer-check.ts'
import { guarded, open, type Operation, operations, resolved } from './operations.ts'
import { recipeOf, type Reference, referencesOf, requestFor, testProviders } from './recipes.ts'
import { newFunction, type TestFunction } from './deployments.ts'
import { newKey, newOwner, type Owner, tokenOf as tokenOfCredential } from './scenario.ts'
import { openSender, type RawAnswer } from './send.ts'

/** Who asks: what the rules know of them, and the token they send. */
interface Actor {
  name: string
  asker: Asker
  token: string | null
}

let platform: TestPlatform
let sender: ReturnType<typeof openSender>
/** Whose things there are to name. Ana's other: a second organization, and a second application in her first. */
const owners = {} as Record<'ana' | "ana's other" | 'ben', Owner>
/** Of Ana's application. */
let functionOfAna: TestFunction
/** For every operation alike. */
let everybody: Actor[]

const scopesOfKeys = everyScope.filter((scope) => /^(network|platform:organizations):/.test(scope))
/** D9, written out once more. */
const scopesOfFunctions = [
  'network:sticky_sessions:write',
  'network:env_vars:read',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:ai_gateway:chat',
  'network:ai_gateway:models',
]
const rolesOf = {
  ana: { ana: 'OWNER', "ana's other": 'OWNER' },
  adam: { ana: 'ADMIN', "ana's other": 'ADMIN' },
  mia: { ana: 'MEMBER', "ana's other": 'MEMBER' },
  ben: { ben: 'OWNER' },
} as const
const user = (name: keyof typeof rolesOf, scopes: readonly string[] = everyScope): Asker => ({
  kind: 'user',
  scopes,
  roles: rolesOf[name],
})

beforeAll(async () => {
  platform = await startPlatform({ aiProviders: testProviders })
  sender = openSender(platform.apiUrl)
  const [ana, ben, adam, mia] = await Promise.all([
    newOwner(platform),
    newOwner(platform),
    platform.person(),
    platform.person(),
  ])
  const second = await newOwner(platform, ana.person)
  const sibling = await platform.call(ana.token, 'POST /applications', {
    organizationId: ana.organizationId,
    name: 'Second',
  })
  Object.assign(owners, { ana, ben, "ana's other": { ...second, applicationId: sibling.body.id as string } })
  for (const { organizationId } of [ana, second]) {
    await setMember(platform.api, organizationId, adam.userId, 'ADMIN')
    await setMember(platform.api, organizationId, mia.userId, 'MEMBER')
  }
  for (const { organizationId } of Object.values(owners))
    for (const quota of [
      'applications',
      'deployments_per_day',
      'invitations_per_day',
      'organizations_per_owner',
    ] as const)
      await setQuota(platform.api, organizationId, quota, 10_000)

  const [keyOfAna, keyOfSecond, keyOfBen] = await Promise.all([
    newKey(platform, ana, scopesOfKeys),
    newKey(platform, owners["ana's other"], scopesOfKeys),
    newKey(platform, ben, scopesOfKeys),
  ])
  functionOfAna = await newFunction(platform, ana)
  const functions = await Promise.all(
    (
      [
        ['ana', 'ana', 'production'],
        ['ana', 'ana', 'preview'],
        ["ana's other", 'ana', 'production'],
        ['ben', 'ben', 'production'],
      ] as const
    ).map(async ([of, organization, environment]): Promise<Actor> => {
      const { token } = await newFunction(platform, owners[of], environment)
      const asker: Asker = { kind: 'function', scopes: scopesOfFunctions, of, organization, environment }
      return { name: `a Function of ${environment} of ${of}`, asker, token }
    }),
  )
  const past = Math.floor(platform.clock.now().getTime() / 1_000) - 1
  const expired = (keySet: { sign: TestPlatform['idp']['keySet']['sign'] }, token: string) =>
    keySet.sign('at+jwt', { ...decodeJwt(token), exp: past })
  const nobody: Asker = { kind: 'unknown' }
  everybody = [
    { name: 'no token', asker: nobody, token: null },
    { name: 'garbage', asker: nobody, token: 'garbage' },
    { name: 'an expired token', asker: nobody, token: expired(platform.idp.keySet, ana.token) },
    { name: 'an expired token of a key', asker: nobody, token: expired(platform.api.keySet, keyOfAna.token) },
    { name: 'an ID token', asker: nobody, token: await ana.person.idToken() },
    { name: 'the owner', asker: user('ana'), token: ana.token },
    { name: 'an admin', asker: user('adam'), token: await adam.token(everyScope) },
    { name: 'a member', asker: user('mia'), token: await mia.token(everyScope) },
    { name: 'a stranger', asker: user('ben'), token: ben.token },
    {
      name: 'a key',
      asker: { kind: 'key', scopes: scopesOfKeys, of: 'ana', organization: 'ana' },
      token: keyOfAna.token,
    },
    {
      name: 'a key of another application of the organization',
      asker: { kind: 'key', scopes: scopesOfKeys, of: "ana's other", organization: 'ana' },
      token: keyOfSecond.token,
    },
    {
      name: "a stranger's key",
      asker: { kind: 'key', scopes: scopesOfKeys, of: 'ben', organization: 'ben' },
      token: keyOfBen.token,
    },
    ...functions,
  ]
})
afterAll(async () => {
  sender.close()
  await platform.close()
})

const remembered = new Map<string, Promise<string>>()
function once(key: string, make: () => Promise<string>): Promise<string> {
  const known = remembered.get(key) ?? make()
  remembered.set(key, known)
  return known
}
const tokenOf = (person: Person, scopes: readonly string[]) =>
  once(`${person.userId} ${scopes.join(' ')}`, () => person.token(scopes))
const tokenOfKey = (scopes: readonly string[]) =>
  once(`key ${scopes.join(' ')}`, async () => (await newKey(platform, owners.ana, scopes)).token)
const tokenOfFunction = (scopes: readonly string[]) =>
  once(`function ${scopes.join(' ')}`, () => {
    const { id, secret } = functionOfAna
    return tokenOfCredential(platform, id, secret, { scope: scopes.join(' ') })
  })
/** A token of Ana's with these scopes, as far as its kind can have them, of the kind that the operation wants. */
const tokenFor = (operation: Operation, scopes: readonly string[]) =>
  actorKindOf(operation) === 'function'
    ? tokenOfFunction(scopes.filter((scope) => scopesOfFunctions.includes(scope)))
    : tokenOf(owners.ana.person, scopes)

/** Those whose tokens are made for the operation: without its scopes, and with one of them and nothing else. */
async function actorsOf(operation: Operation): Promise<Actor[]> {
  const enough = satisfying(scopesFor(operation))
  const also = recipeOf(operation).alsoNeeds ?? []
  const { person } = owners.ana
  const made: Actor[] = []
  const add = async (title: string, scopes: readonly string[]) => {
    made.push({ name: `the owner with ${title}`, asker: user('ana', scopes), token: await tokenOf(person, scopes) })
    const kind = actorKindOf(operation)
    const ofKey = scopes.filter((scope) => scopesOfKeys.includes(scope))
    if (kind === 'user' || ofKey.length === 0) return
    const bound = { of: 'ana', organization: 'ana' } as const
    const key: Asker = { kind: 'key', scopes: ofKey, ...bound }
    made.push({ name: `a key with ${title}`, asker: key, token: await tokenOfKey(ofKey) })
    if (kind !== 'function') return
    const ofFunction = scopes.filter((scope) => scopesOfFunctions.includes(scope))
    const asker: Asker = { kind, scopes: ofFunction, ...bound, environment: 'production' }
    made.push({ name: `a Function with ${title}`, asker, token: await tokenOfFunction(ofFunction) })
  }
  await add(
    'every scope but the needed',
    everyScope.filter((scope) => !enough.includes(scope)),
  )
  for (const scope of enough) await add(`${scope} alone`, [scope, ...also.filter((more) => more !== scope)])
  return made
}

/** What a request names: for each of its references, whose. */
interface Target {
  name: string
  whose: Whose[]
}

/** All of one kind; then each one below the first of every kind, under Ana's. */
function targetsOf(references: readonly Reference[]): Target[] {
  if (references.length === 0) return [{ name: 'nobody in particular', whose: [] }]
  const all: Whose[] = ['ana', "ana's other", 'ben', 'nobody', 'malformed']
  const alike = all.map((whose) => ({ name: whose, whose: references.map(() => whose) }))
  const crossed = references.flatMap((reference, n) =>
    all.slice(1).map((whose) => ({
      name: `${reference.name} of ${whose} among ana's`,
      whose: references.map((_, m): Whose => (m === n ? whose : 'ana')),
    })),
  )
  return references.length === 1 ? alike : [...alike, ...crossed]
}

/** Ids that were made for one request, so that what it names twice is one thing. */
type Made = Map<string, Promise<string>>

/** An id for a reference; where the request changes things, of one that no other request has named. */
function idOf(
  operation: Operation,
  { thing }: Pick<Reference, 'thing'>,
  whose: Whose,
  inRequest: Made,
  changes: boolean,
): Promise<string> {
  if (whose === 'nobody') return Promise.resolve(randomUUID())
  if (whose === 'malformed') return Promise.resolve('not-a-uuid')
  const make = () =>
    thing.make(platform, owners[whose], (parent) => idOf(operation, { thing: parent }, whose, inRequest, changes))
  if (!changes) return once(`${operation.operationId} ${thing.title} ${whose}`, make)
  const key = `${thing.title} ${whose}`
  const id = inRequest.get(key) ?? make()
  inRequest.set(key, id)
  return id
}

/** The ids for all references of one request. changes: whether the request may change what they name. */
function idsFor(
  operation: Operation,
  references: readonly Reference[],
  whose: (n: number) => Whose,
  changes = operation.method !== 'GET',
): Promise<string[]> {
  const inRequest: Made = new Map()
  return Promise.all(references.map((reference, n) => idOf(operation, reference, whose(n), inRequest, changes)))
}

async function ask(operation: Operation, token: string | null, ids: readonly string[]): Promise<RawAnswer> {
  const { body, headers, ...line } = requestFor(operation, ids)
  return sender.send({
    ...line,
    token,
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
}

/** What a failure says; below /ai/v1 it is nested (D21). */
function messageOf({ body }: RawAnswer): unknown {
  const { error } = (body ?? {}) as { error?: unknown }
  return typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error
}
const isNested = ({ path }: Operation): boolean => path.startsWith('/ai/v1/')

const successOf = ({ responses }: Operation): number =>
  Number(Object.keys(responses).find((status) => status.startsWith('2')))

/** The whole answer, but for what is of the single request. */
function fingerprint({ status, headers, text }: RawAnswer): string {
  const { 'x-request-id': _, 'x-service-request-id': __, date: ___, ...lasting } = headers
  return JSON.stringify({ status, headers: lasting, text })
}

test('every operation is known to this suite, and says for itself what guards it (wire.md Scopes)', () => {
  expect(operations.length).toBe(endpoints.filter(({ isListed }) => isListed).length)
  for (const operation of guarded) {
    referencesOf(operation) // throws with what is to be added
    const scopes = scopesFor(operation)
    expect([operation.operationId, operation.security]).toEqual([
      operation.operationId,
      [{ bearer: [] }, ...scopes.map((scope) => ({ oauth2: [scope] }))],
    ])
  }
  expect(open.map(({ operationId }) => operationId).toSorted()).toEqual([
    'exchangeApiKey',
    'getAuthorizationServer',
    'getClientFile',
    'getJwks',
    'getOpenApiDocument',
    'getProtectedResource',
    'getReference',
    'openInvitation',
  ]) // what A §5 exempts, and nothing else
})

const byName = (some: readonly Operation[]) => some.map((operation) => [operation.operationId, operation] as const)

describe.each(byName(guarded))('%s', (_, operation) => {
  test('answers every actor on every target as the rules say (A §5, §7, D16 to D18, D70, roles)', async () => {
    const references = referencesOf(operation)
    const targets = targetsOf(references)
    const actors = [...everybody, ...(await actorsOf(operation))]
    const askFor = async (actor: Actor, target: Target) => {
      const whose = (n: number): Whose => target.whose[n] ?? 'nobody'
      const named = references.map((reference, n) => ({ reference, whose: whose(n) }))
      const expected = expectedAnswer(operation, actor.asker, named)
      // A request that is refused changes nothing, so all of these name the same things; most of the time goes into making them.
      const ids = await idsFor(operation, references, whose, operation.method !== 'GET' && expected === 'done')
      return { actor, target, expected, answer: await ask(operation, actor.token, ids) }
    }
    // One actor at a time: what they make of one organization waits for its row, and hundreds at once would wait too long.
    const answers: Awaited<ReturnType<typeof askFor>>[] = []
    for (const actor of actors) answers.push(...(await Promise.all(targets.map((target) => askFor(actor, target)))))

    const said = answers.map(({ actor, target, answer }) => {
      const { status, text } = answer
      return `${actor.name}, ${target.name}: ${status === 403 || status === 404 ? `${status} ${String(messageOf(answer))}` : status}${status === 500 ? text : ''}`
    })
    const right = answers.map(({ actor, target, expected }) => {
      const told = expected === 'done' ? { status: successOf(operation) } : expected
      return `${actor.name}, ${target.name}: ${told.status}${'error' in told ? ` ${told.error}` : ''}`
    })
    expect(said).toEqual(right)

    expect(answers.flatMap(({ answer }) => faultsOfAnswer(operation, answer))).toEqual([])

    for (const { answer } of answers.filter(({ answer }) => answer.status === 401)) {
      const [, description] =
        /^Bearer error="invalid_token", error_description="([^"]+)"$/.exec(answer.headers['www-authenticate'] ?? '') ??
        []
      const nested = { message: description, type: 'authentication_error', param: null, code: 'invalid_token' }
      expect(answer.body).toEqual({ error: isNested(operation) ? nested : description })
    }
    // What the rules call the same is the same to the byte: missing, malformed, another's, under another parent (D17).
    const alike = Map.groupBy(
      answers.filter(({ answer }) => answer.status === 403 || answer.status === 404),
      ({ expected }) => JSON.stringify(expected),
    )
    for (const [, group] of alike) expect(new Set(group.map(({ answer }) => fingerprint(answer))).size).toBe(1)
  })
})

describe.each(byName(guarded.filter(({ path }) => path.includes('{'))))('%s', (_, operation) => {
  test('reads any malformed id as a missing one (A §7, D16)', async () => {
    const { token } = owners.ana
    const references = referencesOf(operation)
    const own = await idsFor(operation, references, () => 'ana')
    for (const [n, reference] of references.entries()) {
      if (reference.on !== 'path') continue
      const genuine = await ask(operation, token, own.with(n, randomUUID()))
      expect([genuine.status, messageOf(genuine)]).toEqual([404, `${reference.thing.title} not found`])
      const bad = ['1', '%00', '%2e%2e', '%2e%2e%2f', '%2E', '.%2e', '..', `${randomUUID()}x`, '%ff', "'--", '%F0%9F']
      for (const id of bad)
        expect([id, fingerprint(await ask(operation, token, own.with(n, id)))]).toEqual([id, fingerprint(genuine)])
    }
  })
})

const queryOf = ({ parameters = [] }: Operation) => parameters.filter((parameter) => parameter.in === 'query')
const withQuery = guarded.filter((operation) => queryOf(operation).length > 0)
describe.each(byName(withQuery))('%s', (_, operation) => {
  test('refuses each of its query parameters that is given twice, by name (D116)', async () => {
    const references = referencesOf(operation)
    const token = await tokenFor(operation, everyScope)
    const ids = await idsFor(operation, references, () => 'ana')
    const { body, headers, ...line } = requestFor(operation, ids)
    const send = (more: string) =>
      sender.send({
        ...line,
        path: `${line.path}${line.path.includes('?') ? '&' : '?'}${more}`,
        token,
        headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      })
    for (const { name } of queryOf(operation))
      expect(await send(`${name}=5&${name}=5`)).toMatchObject({
        status: 422,
        body: { type: 'validation', on: 'query', errors: [{ property: `/${name}`, summary: 'Given more than once' }] },
      })
  })
})

// Bodies of the AI gateway are larger and fail in another shape: its own tests have them.
const withBody = guarded.filter((operation) => operation.requestBody && !isNested(operation))
describe.each(byName(withBody))('%s', (_, operation) => {
  test('refuses in the order that D18 gives', async () => {
    const references = referencesOf(operation)
    const idsOf = (whose: Whose) => idsFor(operation, references, () => whose)
    const [own, foreign, malformed] = await Promise.all([idsOf('ana'), idsOf('ben'), idsOf('malformed')])
    const lacking = await tokenFor(
      operation,
      everyScope.filter((scope) => !satisfying(scopesFor(operation)).includes(scope)),
    )
    const token = await tokenFor(operation, everyScope)
    const json = 'application/json'
    const send = (token: string | null, ids: string[], type: string, body: string) =>
      sender.send({ ...requestFor(operation, ids), token, headers: { 'content-type': type }, body })
    const large = `{"name":"${'x'.repeat(2_200_000)}"}`
    const hasPathId = references.some(({ on, isUuid }) => on === 'path' && isUuid)

    // Each of these is wrong in all that comes later, too.
    expect((await send(null, malformed, 'text/plain', large)).status).toBe(401)
    expect((await send(lacking, malformed, 'text/plain', large)).status).toBe(403)
    expect((await send(token, malformed, 'text/plain', large)).status).toBe(hasPathId ? 404 : 413)
    expect((await send(token, foreign, 'text/plain', large)).status).toBe(413)
    expect(await send(token, foreign, 'text/plain', '{"broken')).toMatchObject({
      status: 422,
      body: { type: 'validation', on: 'headers', property: '/content-type', found: 'text/plain' },
    })
    expect(await send(token, foreign, json, '{"broken')).toMatchObject({
      status: 400,
      body: { error: 'The body is not valid JSON' },
    })
    // A set that is replaced may come as the array that it is.
    const isObject = resolved(operation.requestBody?.content[json]?.schema ?? {}).type === 'object'
    expect(await send(token, foreign, json, isObject ? '[]' : '7')).toMatchObject({
      status: 422,
      body: { type: 'validation', on: 'body', property: '', ...(isObject && { expected: 'object' }) },
    })
    const unknown = JSON.stringify({ ...requestFor(operation, foreign).body, expireAt: 1 })
    expect(await send(token, foreign, json, unknown)).toMatchObject({
      status: 422,
      // A body that holds a secret is shown by none of its parts.
      body: {
        property: '/expireAt',
        found: expect.toBeOneOf([1, '[redacted]']) as unknown,
        errors: [{ property: '/expireAt' }],
      },
    })
    const right = (ids: string[]) => JSON.stringify(requestFor(operation, ids).body)
    if (references.length > 0) expect((await send(token, foreign, json, right(foreign))).status).toBe(404)
    expect((await send(token, own, json, right(own))).status).toBe(successOf(operation))
  })
})
