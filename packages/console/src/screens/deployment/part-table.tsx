import { Button } from '../../parts/button.tsx'
import { Loaded } from '../../parts/panel.tsx'
import { useInfiniteQuery } from '@tanstack/preact-query'
import type { ComponentChildren } from 'preact'
import { type Ask, askPlatform, usePlatform } from '../../platform/api.ts'
import { counted } from '../../words.ts'

interface CursorPage<T> {
  items: T[]
  total: number
  nextCursor: string | null
}

/** A list that a deployment has, page after page, each added to those before. */
export function PartTable<T extends { id: string }>({
  queryKey,
  read,
  one,
  many,
  columns,
  empty,
  row,
}: {
  queryKey: readonly unknown[]
  /** Asks for the page at a cursor, the first without one. */
  read: (cursor: { cursor?: string }) => Ask<CursorPage<T>>
  /** Such as `file`. */
  one: string
  many?: string
  columns: readonly { word: string; isFigure?: boolean }[]
  empty: ComponentChildren
  /** The cells of a row. */
  row: (item: T) => ComponentChildren
}) {
  const platform = usePlatform()
  const answer = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => askPlatform(platform, read(pageParam), signal),
    initialPageParam: {},
    getNextPageParam: ({ nextCursor: cursor }) => (cursor === null ? undefined : { cursor }),
  })
  return (
    <Loaded answer={answer} rows={6}>
      {({ pages }) => {
        const items = pages.flatMap((page) => page.items)
        const total = pages[0]?.total ?? 0
        if (items.length === 0) return empty
        return (
          <>
            <table class="rows">
              <thead>
                <tr>
                  {columns.map(({ word, isFigure }) => (
                    <th key={word} scope="col" class={isFigure ? 'figure' : ''}>
                      {word}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {items.map((item) => (
                  <tr key={item.id}>{row(item)}</tr>
                ))}
              </tbody>
            </table>
            <div class="mt-3 flex flex-wrap items-center gap-4 text-note text-soft">
              {items.length < total
                ? `${items.length.toLocaleString('en')} of ${counted(total, one, many)}`
                : counted(total, one, many)}
              {answer.hasNextPage && (
                <Button
                  reason={answer.isFetchingNextPage ? 'Being read' : undefined}
                  onClick={() => void answer.fetchNextPage()}
                >
                  Show more
                </Button>
              )}
            </div>
          </>
        )
      }}
    </Loaded>
  )
}
