import { resolved, type Schema } from './operations.ts'

/**
 * The example that a reader or a tool puts together of a schema: its own, else of its parts. Throws for text or a number
 * that has none. at: where the schema stands, for that message.
 */
export function exampleOf(options: Schema, text: string): unknown {
  const schema = resolved(options)
  if (schema.example !== undefined) return schema.example
  if (schema.enum) return schema.enum[0]
  if (schema.default !== undefined) return schema.default
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, of]) => [name, exampleOf(of, `${text}.${name}`)]),
      )
    case 'array':
      return [exampleOf(schema.items ?? {}, `${text}[]`)]
    case 'boolean':
      return true
    case undefined:
      return null
    default:
      throw new Error(`${text} needs an example: shown('…') or .openapi({ example: … })`)
  }
}
