import type { Place } from './place.ts'
import type { Repetition } from './repetition.ts'

/** How a list is walked: by the id of the last item, by a cursor, by an offset, or as a whole. */
export type Paging = 'from' | 'cursor' | 'offset' | 'whole'

export interface Spec {
  readonly method: string
  /** With `{name}` for each path member. */
  readonly path: string
  readonly query: readonly string[]
  readonly repetition: Repetition
  readonly paging?: Paging | undefined
  /** Takes members out that are headers. */
  readonly place?: Place | undefined
}
