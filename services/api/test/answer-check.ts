import { Ajv, type ValidateFunction } from 'ajv'
import { document, type Operation, type Schema } from './operations.ts'
import type { RawAnswer } from './send.ts'

const ajv = new Ajv({ strictSchema: true, strictTypes: false, allErrors: true })
// What OpenAPI adds to JSON Schema and what says nothing about a value.
ajv.addVocabulary(['example', 'components'])
ajv.addFormat('uuid', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) // narrower than RFC 3339 (A §1)
ajv.addFormat('binary', true)
ajv.addFormat('email', /^[^\s@]+@[^\s@]+$/)
ajv.addFormat('uri', (text: string) => URL.canParse(text))

/**
 * The JSON Schema of an OpenAPI one. What the document leaves open, so that clients let answers grow, is closed: a member
 * that is sent without being documented is a fault here.
 */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const { nullable, example: _, $ref, ...rest } = schema as Schema
  const inner: Record<string, unknown> = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [key, closedMember(key, value)]),
  )
  if ($ref !== undefined) inner.$ref = `document${$ref}`
  if (rest.type === 'object' && rest.properties && rest.additionalProperties === undefined)
    inner.additionalProperties = false
  return nullable ? { anyOf: [inner, { type: 'null' }] } : inner
}
function closedMember(key: string, value: unknown): unknown {
  if (key === 'properties')
    return Object.fromEntries(Object.entries(value as object).map(([name, schema]) => [name, closed(schema)]))
  return ['enum', 'default', 'required'].includes(key) ? value : closed(value)
}

ajv.addSchema({
  $id: 'document',
  components: {
    schemas: Object.fromEntries(
      Object.entries(document.components.schemas).map(([name, schema]) => [name, closed(schema)]),
    ),
  },
})

const validators = new Map<Schema, ValidateFunction>()

/** What is wrong with a value by a schema of the document; nothing for one that is right. */
export function faultsOf(schema: Schema, value: unknown): string[] {
  const validate = validators.get(schema) ?? ajv.compile(closed(schema) as object)
  validators.set(schema, validate)
  if (validate(value)) return []
  return (validate.errors ?? []).map(
    ({ instancePath, message = '', params }) => `${instancePath || 'the body'} ${message} ${JSON.stringify(params)}`,
  )
}

const mediaTypeOf = ({ headers }: RawAnswer): string => (headers['content-type'] ?? '').split(';', 1)[0] ?? ''

/** What is wrong with an answer, whatever was asked: it is not one that the document describes for the operation. */
export function faultsOfAnswer(operation: Operation, answer: RawAnswer): string[] {
  const { status, headers, text, body } = answer
  if (status >= 500) return [`answered ${status}: ${text}`]
  const faults: string[] = []
  if (!headers['x-request-id']) faults.push('no X-Request-Id')
  const documented = operation.responses[status]
  if (!documented) return [...faults, `${status} is not documented: ${text.slice(0, 500)}`]
  if (!documented.content) return text === '' ? faults : [...faults, `${status} has a body: ${text.slice(0, 500)}`]
  const type = mediaTypeOf(answer)
  const content = documented.content[type] ?? documented.content[`${type.split('/', 1)[0]}/*`]
  if (!content) return [...faults, `${status} came as ${mediaTypeOf(answer) || 'nothing'}`]
  if (mediaTypeOf(answer) !== 'application/json') return faults
  if (body === undefined) return [...faults, `${status} is no JSON: ${text.slice(0, 500)}`]
  if (status === 401 && operation.security.length > 0 && !headers['www-authenticate']?.startsWith('Bearer '))
    faults.push('401 without a challenge')
  return [...faults, ...faultsOf(content.schema, body).map((fault) => `${status}: ${fault}`)]
}
