import type { Answer } from '@platform/build-output/router'
import type { EdgeDeps } from '../deps.ts'
import type { FunctionTimings } from './call-function.ts'
import type { Compressors } from './compressors.ts'
import type { DeployedSite } from './deployed-site.ts'
import type { PinnedSlots } from './pinned-slots.ts'
import type { ResponseCache } from './response-cache.ts'
import type { Visit } from './visit.ts'

/** What is needed to call Functions. */
export interface FunctionCaller {
  deps: Pick<EdgeDeps, 'functions' | 'logger' | 'clientAddress'>
  pinned: PinnedSlots
  timings: FunctionTimings
  cache: ResponseCache
  compressors: Compressors
  /** Delivers the replacement for a Function that failed. */
  deliverInstead(visit: Visit, site: DeployedSite, answer: Answer): Promise<void>
}

export type FunctionAnswer = Extract<Answer, { kind: 'function' }>
