import { entriesMax } from '@platform/runtime/entries-max'
import { LRUCache } from 'lru-cache'

/** Consecutive failures that open a circuit. */
const FAILURES_MAX = 5
const OPEN_MS = 10_000
/** Keeps the circuits that failed last; a forgotten one is closed. */
const CIRCUITS_MAX = 10_000

interface Circuit {
  failures: number
  /** The callers that saw the failures. */
  callers: Set<string>
  openUntil: number
  /** True while one call tests whether the provider is back. */
  isProbing: boolean
}

export interface Circuits {
  /** True if a call may use it now. The first call after an open circuit's pause tests it alone. */
  mayCall(key: string): boolean
  succeeded(key: string): void
  /**
   * Records a failure of the provider itself, not of the request.
   *
   * callerId: failures of a single organization do not open the circuit, unless `isCertain`: one caller's request that makes a
   * provider fail must not keep others from it.
   */
  failed(key: string, callerId: string, isCertain: boolean): void
  /** Records a call without a verdict: its client left. */
  forgotten(key: string): void
  /** Forgets all failures. */
  closeAll(): void
}

/** Tracks failing providers, so that calls go to another one at once; in this process only, for each key separately. */
export function createCircuits(now: () => number = () => performance.now()): Circuits {
  const circuits = new LRUCache<string, Circuit>({ ...entriesMax(CIRCUITS_MAX) })
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
