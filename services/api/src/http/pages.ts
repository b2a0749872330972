import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import type { Sealer } from '@platform/runtime/seal'
import { openText, sealText } from '@platform/runtime/sealed-text'
import { id } from './fields.ts'

const total = z.number().int().min(0).openapi({ example: 1 })
const CURSOR = 'azE.4RdG0nXJ2Q'
const TOTAL = 'Number of matching items on all pages.'

/** The `limit` query parameter: digits within the bounds; no sign, no exponent. */
const limit = (max: number, byDefault: number) =>
  z
    .string()
    .regex(/^\d{1,4}$/, `Expected an integer from 1 to ${max}`)
    .transform(Number)
    .pipe(z.number().int().min(1).max(max))
    .default(byDefault)
    .openapi({
      type: 'integer',
      minimum: 1,
      maximum: max,
      default: byDefault,
      description: 'Maximum number of items.',
    })

/** The response of a list: the whole set, or one keyset page of it (A §1 Pagination). */
export const page = <S extends z.ZodType>(item: S) =>
  z.object({ items: z.array(item), total: total.openapi({ description: TOTAL }) })

/** The response of an unpaginated list: `total` is its length (A §1 Whole set). */
export const asWholeSet = <T>(items: T[]): { items: T[]; total: number } => ({ items, total: items.length })

/** `from` is the id of the last item received; newest first (A §1 Keyset, D30). A deleted `from` still works. */
export const keysetQuery = {
  from: id.optional().openapi({ description: 'The id of the last item received.' }),
  limit: limit(100, 10),
}

export interface KeysetPage {
  from?: string | undefined
  limit: number
}

/** The response of a cursor list: `nextCursor` is null on the last page (A §1 Cursor). */
export const cursorPage = <S extends z.ZodType>(item: S) =>
  z.object({ ...page(item).shape, nextCursor: z.string().nullable().openapi({ example: CURSOR }) })

/** limitMax: 1,000 unless the specification says otherwise (A §1 Cursor, D33). */
export const cursorQuery = (limitMax = 1_000) => ({
  cursor: z
    .string()
    .max(2_048)
    .optional()
    .openapi({ description: 'The `nextCursor` of the previous page.', example: CURSOR }),
  limit: limit(limitMax, 100),
})

/** The list that a cursor belongs to: it continues only this list, of this owner, under these filters. */
export interface CursorOf {
  operation: string
  ownerId: string
  filters: Readonly<Record<string, unknown>>
}

const contextOf = ({ operation, ownerId, filters }: CursorOf): string =>
  JSON.stringify(['cursor', operation, ownerId, Object.entries(filters).toSorted(([a], [b]) => (a < b ? -1 : 1))])

/** Seals a position into a cursor, which its holder can neither read nor forge (D33). */
export function writeCursor(sealer: Sealer, of: CursorOf, position: unknown): string {
  return sealText(sealer, JSON.stringify(position), contextOf(of), 'base64url')
}

/** Opens a cursor and parses its position by `schema`. Throws BadRequest if it belongs to another list (D15, D33). */
export function readCursor<S extends z.ZodType>(sealer: Sealer, of: CursorOf, schema: S, cursor: string): z.output<S> {
  try {
    return schema.parse(JSON.parse(openText(sealer, cursor, contextOf(of), 'base64url')))
  } catch {
    // Forged, altered, or from a list with other filters: the client gets the same error.
    throw new BadRequest('The cursor does not belong to this list')
  }
}

/** The response of a build log: counted, without a cursor (A §1 Exceptions). */
export const offsetPage = <S extends z.ZodType>(item: S) =>
  z.object({
    totalItems: total,
    limit: z.number().int().openapi({ example: 100 }),
    offset: z.number().int().openapi({ example: 0 }),
    items: z.array(item),
  })

export const offsetQuery = {
  offset: z
    .string()
    .regex(/^\d{1,9}$/, 'Expected an integer from 0')
    .transform(Number)
    .default(0)
    .openapi({ type: 'integer', minimum: 0, default: 0, description: 'Number of items to skip.' }),
  limit: limit(1_000, 100),
}
