import { workUnderWay } from '@platform/service/metrics'
import { ImageRefusal } from './image-refusal.ts'

/** The owner of an image. */
interface Owner {
  deploymentId: string
  organizationId: string
}

/** Images generated at a time. An organization with slow sources leaves places to others. */
const RUNNING_MAX = { deployment: 4, organization: 8, all: 16 }
/** Requests that wait for a place: a page whose images were never requested before asks for many at once. */
const WAITING_MAX = { deployment: 32, organization: 64, all: 256 }
const WAIT_MS = 10_000

/** Limits how many images are generated at once. Call the returned function to release a place. */
export interface ImagePlaces {
  /** Waits for a place, in the order of requests. Throws ImageRefusal if too many wait already, and after 10 s. */
  take(owner: Owner): Promise<() => void>
  /** Throws ImageRefusal if no place is free right now. */
  takeNow(owner: Owner): () => void
}

interface Waiting {
  owner: Owner
  enter(): void
}

const busy = () => new ImageRefusal('image_busy', 'Too many new images are being made at this moment.')

/** Counts places or requests by owner. */
class Count {
  readonly #max: typeof RUNNING_MAX
  readonly #counts = new Map<string, number>()

  constructor(max: typeof RUNNING_MAX) {
    this.#max = max
  }

  hasRoom({ deploymentId, organizationId }: Owner): boolean {
    return (
      this.#of(deploymentId) < this.#max.deployment &&
      this.#of(organizationId) < this.#max.organization &&
      this.#of('all') < this.#max.all
    )
  }

  add({ deploymentId, organizationId }: Owner, more: 1 | -1): void {
    for (const name of [deploymentId, organizationId, 'all']) {
      const count = this.#of(name) + more
      if (count === 0) this.#counts.delete(name)
      else this.#counts.set(name, count)
    }
  }

  #of(name: string): number {
    return this.#counts.get(name) ?? 0
  }
}

export function openImagePlaces(waitMs = WAIT_MS): ImagePlaces {
  const running = new Count(RUNNING_MAX)
  const queued = new Count(WAITING_MAX)
  let waiting: Waiting[] = []
  const [seenRunning, seenWaiting] = [workUnderWay.labels('image', 'running'), workUnderWay.labels('image', 'waiting')]

  function enter(owner: Owner): () => void {
    running.add(owner, 1)
    seenRunning.inc()
    return () => {
      running.add(owner, -1)
      seenRunning.dec()
      waiting.find((each) => running.hasRoom(each.owner))?.enter()
    }
  }

  return {
    takeNow(owner) {
      if (!running.hasRoom(owner)) throw busy()
      return enter(owner)
    },
    async take(owner) {
      if (running.hasRoom(owner)) return enter(owner)
      if (!queued.hasRoom(owner)) throw busy()
      const { promise, resolve, reject } = Promise.withResolvers<() => void>()
      const leave = (): void => {
        clearTimeout(late)
        waiting = waiting.filter((each) => each !== own)
        queued.add(owner, -1)
        seenWaiting.dec()
      }
      const own: Waiting = {
        owner,
        enter() {
          leave()
          resolve(enter(owner))
        },
      }
      const late = setTimeout(() => {
        leave()
        reject(busy())
      }, waitMs)
      waiting.push(own)
      queued.add(owner, 1)
      seenWaiting.inc()
      return promise
    },
  }
}
