import { isRecord, listOf, memberOf } from '@platform/ai-protocols/record'

/** Limits of the instance: by nesting, references and minima, a schema can require one of any size. */
const VALUES_MAX = 1_000
const CHARACTERS_MAX = 1_000

const numberIn = (schema: Record<string, unknown>, name: string): number => {
  const value = memberOf(schema, name)
  return typeof value === 'number' ? value : 0
}

/** Returns the type to make if a schema names several or none. */
function typeOf(schema: Record<string, unknown>): unknown {
  const { type } = schema
  if (Array.isArray(type)) return type.find((each) => each !== 'null') ?? 'null'
  if (type !== undefined) return type
  if (isRecord(schema['properties']) || Array.isArray(schema['required'])) return 'object'
  return schema['items'] === undefined ? undefined : 'array'
}

/** Returns the target of a reference within the document (RFC 6901); undefined for any other. */
function pointedAt(root: unknown, reference: string): unknown {
  if (reference !== '#' && !reference.startsWith('#/')) return undefined
  const names = reference.split('/').slice(1)
  return names.reduce<unknown>((value, name) => memberOf(value, name.replaceAll('~1', '/').replaceAll('~0', '~')), root)
}

/**
 * Makes a small value of the types in a JSON Schema: only required members, the first of alternatives, zero, false and empty text.
 * Respects `const`, `enum`, `$ref` within the schema, `minItems`, `minLength` and `minimum`, and no other rule; if the schema
 * requires more than 1,000 values, the rest is null.
 */
export function instanceOfSchema(root: unknown): unknown {
  let values = 0
  const make = (schema: unknown): unknown => {
    values += 1
    if (values > VALUES_MAX || !isRecord(schema)) return null
    if (schema['const'] !== undefined) return schema['const']
    const [first] = listOf(schema, 'enum')
    if (first !== undefined) return first
    const { $ref: reference } = schema
    if (typeof reference === 'string') return make(pointedAt(root, reference))
    const [alternative] = [...listOf(schema, 'anyOf'), ...listOf(schema, 'oneOf'), ...listOf(schema, 'allOf')]
    const type = typeOf(schema)
    if (alternative !== undefined && type === undefined) return make(alternative)
    switch (type) {
      case 'object': {
        const names = listOf(schema, 'required').filter((name) => typeof name === 'string')
        return Object.fromEntries(
          names.slice(0, VALUES_MAX).map((name) => [name, make(memberOf(schema['properties'], name) ?? {})]),
        )
      }
      case 'array': {
        const length = Math.min(numberIn(schema, 'minItems'), Math.max(0, VALUES_MAX - values))
        return Array.from({ length }, () => make(schema['items'] ?? {}))
      }
      case 'string':
        return ' '.repeat(Math.min(Math.max(0, numberIn(schema, 'minLength')), CHARACTERS_MAX))
      case 'integer':
        return Math.ceil(numberIn(schema, 'minimum'))
      case 'number':
        return numberIn(schema, 'minimum')
      case 'boolean':
        return false
      default:
        return null
    }
  }
  return make(root)
}
