import type { NewPage } from './pages.ts'

/** Pages stored in one transaction. */
const PAGES_AT_ONCE = 100

/** Stores the pages of one deployment in one transaction after another: pages added meanwhile go into the next. */
export interface StoreQueue {
  /** Resolves once the pages are stored; rejects with the error otherwise. */
  add(pages: readonly NewPage[]): Promise<void>
  isIdle(): boolean
}

interface Waiting {
  pages: readonly NewPage[]
  resolve: () => void
  reject: (error: unknown) => void
}

/** Of pages with the same key, keeps the one begun last. */
function withoutRepeats(pages: Iterable<NewPage>): NewPage[] {
  const byKey = new Map<string, NewPage>()
  for (const page of pages) {
    const known = byKey.get(page.key)
    if (!known || known.begunAt <= page.begunAt) byKey.set(page.key, page)
  }
  return [...byKey.values()]
}

/** store: called with pages of distinct keys. */
export function openStoreQueue(store: (pages: readonly NewPage[]) => Promise<void>): StoreQueue {
  let waiting: Waiting[] = []
  let isStoring = false

  function takeNext(): Waiting[] {
    let count = 0
    const end = waiting.findIndex(({ pages }) => (count += pages.length) > PAGES_AT_ONCE)
    const taken = waiting.slice(0, end === -1 ? undefined : Math.max(1, end))
    waiting = waiting.slice(taken.length)
    return taken
  }

  async function storeWaiting(): Promise<void> {
    isStoring = true
    while (waiting.length > 0) {
      const taken = takeNext()
      try {
        await store(withoutRepeats(taken.flatMap(({ pages }) => pages)))
        for (const { resolve } of taken) resolve()
      } catch (error) {
        for (const { reject } of taken) reject(error)
      }
    }
    isStoring = false
  }

  return {
    add(pages) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      waiting.push({ pages, resolve, reject })
      if (!isStoring) void storeWaiting()
      return promise
    },
    isIdle: () => !isStoring && waiting.length === 0,
  }
}
