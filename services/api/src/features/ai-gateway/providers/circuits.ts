import { LRUCache } from 'lru-cache'

/** Failures in a row that open a circuit. */
const FAILURES_MAX = 5
const OPEN_MS = 10_000
/** Of those that failed last; one that is forgotten is closed. */
const CIRCUITS_MAX = 10_000

interface Circuit {
  failures: number
  /** Who met the failures. */
  callers: Set<string>
  openUntil: number
  /** True while one call tries whether the provider is back. */
  isProbing: boolean
}

export interface Circuits {
  /** True if a call may go there now. The one that finds the time of an open circuit over tries it out alone. */
  mayCall(key: string): boolean
  succeeded(key: string): void
  /**
   * A failure of the provider's own, not of the request.
   *
   * callerId: of one organization alone it opens nothing, unless `isCertain`: a request that makes a provider fail is no
   * reason to keep others from it.
   */
  failed(key: string, callerId: string, isCertain: boolean): void
  /** The call ended without telling: its client left. */
  forgotten(key: string): void
  /** Forgets all failures. */
  closeAll(): void
}

/** Remembers which providers fail, so that calls go to another one at once; in this process, for each key by itself. */
export function createCircuits(now: () => number = () => performance.now()): Circuits {
  const circuits = new LRUCache<string, Circuit>({ max: CIRCUITS_MAX })
  return {
    mayCall(key) {
      const circuit = circuits.get(key)
      if (!circuit || circuit.openUntil === 0) return true
      if (circuit.isProbing || now() < circuit.openUntil) return false
      circuit.isProbing = true
      return true
    },
    succeeded: (key) => void circuits.delete(key),
    failed(key, callerId, isCertain) {
      const circuit = circuits.get(key) ?? { failures: 0, callers: new Set(), openUntil: 0, isProbing: false }
      circuits.set(key, circuit)
      circuit.failures++
      circuit.callers.add(callerId)
      const wasOpen = circuit.openUntil > 0
      circuit.isProbing = false
      if (wasOpen || (circuit.failures >= FAILURES_MAX && (isCertain || circuit.callers.size > 1)))
        circuit.openUntil = now() + OPEN_MS
    },
    forgotten(key) {
      const circuit = circuits.get(key)
      if (circuit) circuit.isProbing = false
    },
    closeAll: () => circuits.clear(),
  }
}
