import { isUuid } from '../../platform/query.ts'

const families = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
const cacheStatuses = ['hit', 'miss', 'bypass', 'revalidated', 'stale', 'updating'] as const
export const levels = ['DEBUG', 'INFO', 'WARN', 'ERROR'] as const

/** A filter of the API, by its name there and in the address. */
export interface FilterField {
  name: string
  label: string
  kind: 'text' | 'id' | 'time' | 'choice'
  /** What is wrong with a text that is not empty. */
  problemOf(text: string): string | undefined
  choices?: readonly string[]
  placeholder?: string
}

/** As the API takes texts. */
const textField = (name: string, label: string, bytesMax: number, placeholder = ''): FilterField => ({
  name,
  label,
  kind: 'text',
  placeholder,
  problemOf: (text) =>
    !text.isWellFormed() || text.includes('\0')
      ? 'Expected text without NUL and lone surrogates.'
      : new TextEncoder().encode(text).length > bytesMax
        ? `Expected at most ${bytesMax} bytes.`
        : undefined,
})

const patternField = (
  name: string,
  label: string,
  { pattern, expected, placeholder }: { pattern: RegExp; expected: string; placeholder: string },
): FilterField => ({
  name,
  label,
  kind: 'text',
  placeholder,
  problemOf: (text) => (pattern.test(text) ? undefined : `${expected}.`),
})

const choiceField = (
  name: string,
  label: string,
  choices: readonly string[],
  more: readonly string[] = [],
): FilterField => ({
  name,
  label,
  kind: 'choice',
  choices,
  problemOf: (text) =>
    choices.includes(text) || more.includes(text) ? undefined : `“${text}” is none of ${choices.join(', ')}.`,
})

const idField = (name: string, label: string): FilterField => ({
  name,
  label,
  kind: 'id',
  placeholder: 'id',
  problemOf: (text) => (isUuid(text) ? undefined : 'This is no id: expected 32 hexadecimal digits in five groups.'),
})

/** The year has four digits, as in the API. */
const isInstant = (text: string): boolean =>
  /^\d{4}-/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === text

const timeField = (name: string, label: string): FilterField => ({
  name,
  label,
  kind: 'time',
  problemOf: (text) =>
    isInstant(text) ? undefined : `“${text}” is no time: expected one such as 2026-11-21T09:30:00.000Z.`,
})

const deployment = idField('deploymentId', 'Deployment')
const times = [timeField('from', 'From'), timeField('to', 'Until')]

/** The filters that are in view, and those that fold away. */
export interface FilterFields {
  common: readonly FilterField[]
  more: readonly FilterField[]
}

export const requestFields: FilterFields = {
  common: [
    choiceField('statusFamily', 'Status', families, ['1', '2', '3', '4', '5']),
    choiceField('cacheStatus', 'Cache', cacheStatuses),
    textField('pathPrefix', 'Path begins with', 2_048, '/api/'),
    deployment,
  ],
  more: [
    ...times,
    patternField('method', 'Method', {
      pattern: /^[A-Z]{1,16}$/,
      expected: 'Expected a method in capitals, such as GET',
      placeholder: 'GET',
    }),
    patternField('status', 'Exact status', {
      pattern: /^[1-5]\d\d$/,
      expected: 'Expected a status from 100 to 599',
      placeholder: '404',
    }),
    choiceField('cacheHit', 'Answered by the cache', ['true', 'false']),
    textField('hostname', 'Hostname', 253, 'shop.example.com'),
    patternField('country', 'Country', {
      pattern: /^[A-Z]{2}$/,
      expected: 'Expected two capital letters, such as DE',
      placeholder: 'DE',
    }),
    idField('deploymentFunctionId', 'Function'),
    idField('deploymentAssetId', 'File of a deployment'),
    idField('storageBucketId', 'Bucket'),
    idField('storageObjectId', 'Object'),
    textField('region', 'Region', 64),
    textField('edgeLocation', 'Edge', 64),
  ],
}

export const lineFields: FilterFields = {
  common: [choiceField('level', 'Level', levels), textField('search', 'Text', 256, 'Contains'), deployment],
  more: [...times, idField('functionId', 'Function'), textField('requestId', 'Printed during the request', 128, 'id')],
}

export interface ReadFilters {
  /** Those that are set, by name. */
  values: Record<string, string>
  /** What is wrong with them, by name. */
  problems: Record<string, string>
}

/** The filters that an address has. One that does not parse is told, never guessed; an empty one is none. */
export function readFilters({ common, more }: FilterFields, query: Record<string, string>): ReadFilters {
  const values: Record<string, string> = {}
  const problems: Record<string, string> = {}
  for (const { name, problemOf } of [...common, ...more]) {
    const text = query[name]
    if (text === undefined || text === '') continue
    values[name] = text
    const problem = problemOf(text)
    if (problem !== undefined) problems[name] = problem
  }
  const { from, to } = values
  if (from !== undefined && to !== undefined && !problems['from'] && !problems['to'] && from >= to)
    problems['to'] = 'This is not after the beginning.'
  return { values, problems }
}
