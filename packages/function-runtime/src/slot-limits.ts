import type { SandboxLimits } from '@platform/sandbox/sandbox'

const megabyte = 1024 * 1024

/** From this share on V8 itself counts the collections that free too little, and gives up once four in a row have taken most of the time. */
const heapBudgetShare = 0.8

/**
 * Divides a Function's memory: V8's heap, how much of that may be in use for long, and the growth allowed for Buffers and other
 * data.
 */
export function memoryParts(memoryMb: number): { heapMb: number; heapBudgetBytes: number; growthBytes: number } {
  // Node itself, its code and stacks take some 40 MB. Memory must not run out before V8's heap limit: Node would abort
  // silently.
  const heapMb = Math.max(32, Math.min(Math.floor(memoryMb * 0.75), memoryMb - 48))
  return {
    heapMb,
    heapBudgetBytes: heapMb * heapBudgetShare * megabyte,
    growthBytes: (heapMb + Math.max(256, memoryMb)) * megabyte,
  }
}

/** The limits of a slot. */
export function limitsOf(memoryMb: number): SandboxLimits {
  return {
    memoryBytes: memoryMb * megabyte,
    processes: 128,
    openFiles: 4_096,
    // /tmp counts as memory, and filling it should not end the slot.
    tmpBytes: Math.floor(memoryMb / 2) * megabyte,
    cpuShare: 100,
  }
}
