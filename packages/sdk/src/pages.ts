import type { Operation, Params } from './operation.ts'
import type { Spec } from './spec.ts'
import type { Platform } from './platform.ts'
import type { CallOptions } from './sender.ts'

interface Page {
  items: unknown[]
  nextCursor?: string | null
}

type AnyList<R> = (platform: Platform, params: object, options: CallOptions) => Promise<R>

const KEYSET_LIMIT = 100

/**
 * The pages of a list, whichever way it is paged (A §1): by `from`, by `cursor`, by `offset`, or all at once. The next page is
 * asked for when the loop wants it. `limit` is the size of a page. Throws what the operation throws, and TypeError for one that
 * answers no list.
 */
export async function* pagesOf<D extends object, R extends { items: unknown[] }>(
  list: Operation<D, R>,
  platform: Platform,
  params?: Params<D>,
  options: CallOptions = {},
): AsyncGenerator<R, void, undefined> {
  const { spec } = list
  let next: Record<string, unknown> | undefined = { ...params }
  if (spec.paging === undefined) throw new TypeError(`${spec.method} ${spec.path} answers no list`)
  if (spec.paging === 'from') next = { limit: KEYSET_LIMIT, ...next }
  while (next !== undefined) {
    const page: R = await (list as AnyList<R>)(platform, next, options)
    yield page
    next = following(spec, next, page)
  }
}

function following({ paging }: Spec, params: Record<string, unknown>, page: Page): Record<string, unknown> | undefined {
  const last = page.items.at(-1) as { id: string } | undefined
  if (paging === 'cursor') return page.nextCursor ? { ...params, cursor: page.nextCursor } : undefined
  if (last === undefined || paging === 'whole') return undefined
  if (paging === 'offset') return { ...params, offset: Number(params['offset'] ?? 0) + page.items.length }
  return page.items.length < Number(params['limit']) ? undefined : { ...params, from: last.id }
}

/** The items of all pages of a list, one by one. */
export async function* all<D extends object, R extends { items: unknown[] }>(
  list: Operation<D, R>,
  platform: Platform,
  params?: Params<D>,
  options: CallOptions = {},
): AsyncGenerator<R['items'][number], void, undefined> {
  for await (const page of pagesOf(list, platform, params, options)) yield* page.items as R['items'][number][]
}
