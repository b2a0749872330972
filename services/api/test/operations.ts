import { endpoints } from '../src/endpoints.ts'
import { createDocument } from '../src/http/document.ts'

/** A JSON schema as OpenAPI 3.0 writes it, as far as tests look into one. */
export interface Schema {
  $ref?: string
  type?: string
  format?: string
  nullable?: boolean
  enum?: unknown[]
  pattern?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  additionalProperties?: boolean | Schema
  example?: unknown
  default?: unknown
}

interface Content {
  schema: Schema
  example?: unknown
}

/** A parameter as the OpenAPI document describes it. */
export interface Parameter {
  in: string
  name: string
  required?: boolean
  schema: Schema
}

/** An operation as the OpenAPI document describes it. */
export interface Operation {
  operationId: string
  method: string
  path: string
  summary: string
  description: string
  tags: string[]
  security: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { required?: boolean; content: Record<string, Content> }
  responses: Record<string, { description: string; headers?: object; content?: Record<string, Content> }>
}

interface OpenApiDocument {
  info: { version: string }
  paths: Record<string, Record<string, Omit<Operation, 'method' | 'path'>>>
  components: { schemas: Record<string, Schema> }
}

/** The document that tests of the running service go by. Its origins are made up; nothing here depends on them. */
export const document = createDocument(endpoints, 'http://api.test', 'http://idp.test') as OpenApiDocument

/** Every operation of the document. */
export const operations: readonly Operation[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
)

/** Those that need a credential, and those that do not (A §5). */
export const guarded = operations.filter(({ security }) => security.length > 0)
export const open = operations.filter(({ security }) => security.length === 0)

/** The schema itself, for one that refers to a component. */
export function resolved(schema: Schema): Schema {
  if (schema.$ref === undefined) return schema
  const row = document.components.schemas[schema.$ref.replace('#/components/schemas/', '')]
  if (!row) throw new Error(`${schema.$ref} is not in the document`)
  return resolved(row)
}
