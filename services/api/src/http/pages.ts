import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import type { Sealer } from '@platform/runtime/seal'
import { openText, sealText } from '@platform/runtime/sealed-text'
import { id } from './fields.ts'

const total = z.number().int().min(0).openapi({ example: 1 })
const CURSOR = 'azE.4RdG0nXJ2Q'
const TOTAL = 'Number of matching items on all pages.'

/** A limit that a query may send: digits, no sign, no exponent, within the bounds. */
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

/** The answer of a list: whole, or a keyset page of it (A §1 Pagination). */
export const page = <S extends z.ZodType>(item: S) =>
  z.object({ items: z.array(item), total: total.openapi({ description: TOTAL }) })

/** A list that is answered whole: `total` is its length (A §1 Whole set). */
export const asWholeSet = <T>(items: T[]): { items: T[]; total: number } => ({ items, total: items.length })

/** `from` is the id of the last item received; newest first (A §1 Keyset, D30). A `from` that is gone still works. */
export const keysetQuery = {
  from: id.optional().openapi({ description: 'The id of the last item received.' }),
  limit: limit(100, 10),
}

export interface KeysetPage {
  from?: string | undefined
  limit: number
}

/** The answer of a cursor list: `nextCursor` is null on the final page (A §1 Cursor). */
export const cursorPage = <S extends z.ZodType>(item: S) =>
  z.object({ ...page(item).shape, nextCursor: z.string().nullable().openapi({ example: CURSOR }) })

/** limitMax: 1,000 unless the source says otherwise (A §1 Cursor, D33). */
export const cursorQuery = (limitMax = 1_000) => ({
  cursor: z
    .string()
    .max(2_048)
    .optional()
    .openapi({ description: 'The `nextCursor` of the previous page.', example: CURSOR }),
  limit: limit(limitMax, 100),
})

/** What a cursor belongs to: it continues this list of this owner under these filters, and no other. */
export interface CursorOf {
  operation: string
  ownerId: string
  filters: Readonly<Record<string, unknown>>
}

const contextOf = ({ operation, ownerId, filters }: CursorOf): string =>
  JSON.stringify(['cursor', operation, ownerId, Object.entries(filters).toSorted(([a], [b]) => (a < b ? -1 : 1))])

/** A cursor that holds a position, sealed: its holder can neither read it nor make one (D33). */
export function writeCursor(sealer: Sealer, of: CursorOf, position: unknown): string {
  return sealText(sealer, JSON.stringify(position), contextOf(of), 'base64url')
}

/** The position in a cursor, in the shape that `schema` gives it. Throws BadRequest for one of another list (D15, D33). */
export function readCursor<S extends z.ZodType>(sealer: Sealer, of: CursorOf, schema: S, cursor: string): z.output<S> {
  try {
    return schema.parse(JSON.parse(openText(sealer, cursor, contextOf(of), 'base64url')))
  } catch {
    // Not ours, changed, or of a list with other filters: all the same to who sent it.
    throw new BadRequest('The cursor does not belong to this list')
  }
}

/** The answer of a build log: counted, not continued (A §1 Exceptions). */
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
