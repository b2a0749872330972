import { generateTypes } from '@platform/client-generators/generate-types'

interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
}

interface Schema {
  $ref?: string
  properties?: Record<string, unknown>
}

interface Operation {
  operationId?: string
  summary: string
  deprecated?: boolean
  parameters?: Parameter[]
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>
}

/** What is read of the platform's OpenAPI document. */
export interface OpenApiDocument {
  info: { version: string }
  servers?: unknown
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

/** The credentials' own, a page, and a link for browsers. */
const LEFT_OUT = ['exchangeApiKey', 'getReference', 'openInvitation']

/** POST operations that do the same again when they are repeated (D45, D80). */
const REPEATABLE = ['startUpload', 'createPartUrl', 'completeUpload', 'promoteDeployment']
const AT_MOST_ONCE = ['cancelDeployment', 'createStickyUrl', 'restoreObject', 'restoreObjects', 'runCron']
const INFERENCE = ['createChatCompletion', 'createResponse', 'createSpeech', 'createTranscription']

/** Header parameters that are members of a call, beside those that the runtime sends. */
const HEADERS = [
  'X-Organization-Id',
  'OpenAI-Organization',
  'X-Application-Id',
  'X-End-User-Id',
  'Idempotency-Key',
  'Last-Event-ID',
]

function repetitionOf(id: string, method: string, { responses }: Operation, headers: readonly string[]): string {
  if (headers.includes('Idempotency-Key')) return 'create'
  if (INFERENCE.includes(id)) return 'infer'
  if (AT_MOST_ONCE.includes(id) || method === 'PATCH') return 'once'
  if (method === 'DELETE' && responses['204']) return 'remove'
  if (['GET', 'PUT', 'DELETE'].includes(method) || REPEATABLE.includes(id)) return 'repeat'
  throw new Error(`${id}: say whether this ${method} may be repeated, in packages/sdk/test/generated.ts`)
}

function pagingOf(
  { components }: OpenApiDocument,
  id: string,
  { responses }: Operation,
  query: readonly string[],
): string | undefined {
  const schema = responses['200']?.content?.['application/json']?.schema
  const { properties = {} } = (schema?.$ref ? components.schemas[schema.$ref.split('/').at(-1) ?? ''] : schema) ?? {}
  const members = Object.keys(properties)
  if (!members.includes('items')) return undefined
  // Some lists with a cursor have a time `from` as a filter.
  for (const paging of ['cursor', 'offset', 'from'])
    if (query.includes(paging) && query.includes('limit') && (paging !== 'cursor' || members.includes('nextCursor')))
      return paging
  if (query.includes('limit')) throw new Error(`${id}: it is not known how this list is paged`)
  return 'whole'
}

const typeName = (id: string): string => id[0]?.toUpperCase() + id.slice(1)
const quoted = (text: string): string => `'${text}'`

/** The line of an operation. */
function lineOf(document: OpenApiDocument, id: string, method: string, path: string, operation: Operation): string {
  const parameters = operation.parameters ?? []
  const named = (place: string) => parameters.filter((each) => each.in === place).map(({ name }) => name)
  const [query, headers] = [named('query'), named('header')]
  const twice = named('path').find((name) => query.includes(name))
  if (twice !== undefined) throw new Error(`${id}: ${twice} is a member of the path and of the query`)
  const unknown = headers.find((name) => !HEADERS.includes(name))
  if (unknown !== undefined) throw new Error(`${id}: the header ${unknown} is unknown`)
  const paging = method === 'GET' ? pagingOf(document, id, operation, query) : undefined
  const isPlaced = headers.includes('X-Organization-Id')
  const words = [quoted(method), quoted(path), repetitionOf(id, method, operation, headers)]
  if (query.length > 0 || paging !== undefined || isPlaced) words.push(quoted(query.join(' ')))
  if (paging !== undefined || isPlaced) words.push(paging === undefined ? 'undefined' : quoted(paging))
  if (isPlaced) words.push(headers.includes('Idempotency-Key') ? 'placedOnce' : 'placed')
  // The types name the first of several media types.
  const [, ...others] = Object.keys(operation.responses['200']?.content ?? {})
  const orText = others.some((type) => /^text\/(?!event-stream)/.test(type)) ? ' | string' : ''
  const types = `t.${typeName(id)}Data, t.${typeName(id)}Response${orText}`
  const made = `operation<${types}>(${words.join(', ')})`
  return `/** ${operation.summary}. */
export const ${id} = /* @__PURE__ */ ${id === 'createApiKey' ? `tellingLostSecret(/* @__PURE__ */ ${made})` : made}`
}

/**
 * What packages/sdk/src/generated holds for a document: by file name, the content.
 *
 * Throws for an operation that nobody has classified, and for one whose members would share a name.
 */
export async function generate(document: OpenApiDocument): Promise<Record<string, string>> {
  const { servers: _, ...rest } = document
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, each]) =>
      each.operationId === undefined || LEFT_OUT.includes(each.operationId)
        ? []
        : [lineOf(document, each.operationId, method.toUpperCase(), path, each)],
    ),
  )
  return {
    'types.ts': await generateTypes(rest),
    'operations.ts': `// Made by \`npm run sdk\` from the API's OpenAPI document. Do not edit.
import { tellingLostSecret } from '../lost-secret.ts'
import { operation } from '../operation.ts'
import { placed, placedOnce } from '../place.ts'
import { create, infer, once, remove, repeat } from '../repetition.ts'
import type * as t from './types.ts'

/** The version of the API that these operations are of. */
export const apiVersion = '${document.info.version}'

${operations.join('\n\n')}
`,
  }
}
