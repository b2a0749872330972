import type { SandboxLimits } from '@platform/sandbox/sandbox'

const megabyte = 1024 * 1024

/** How the memory of a Function is parted: V8's heap, and what Buffers and other data may add to it. */
export function memoryParts(memoryMb: number): { heapMb: number; growthBytes: number } {
  // Node itself, its code and stacks take some 40 MB; below V8's limit the heap would abort without a word.
  const heapMb = Math.max(32, Math.min(Math.floor(memoryMb * 0.75), memoryMb - 48))
  return { heapMb, growthBytes: (heapMb + Math.max(256, memoryMb)) * megabyte }
}

/** The limits of a slot. */
export function limitsOf(memoryMb: number): SandboxLimits {
  return {
    memoryBytes: memoryMb * megabyte,
    processes: 128,
    openFiles: 4_096,
    // It counts as memory, and a full /tmp shall not be the end of the slot.
    tmpBytes: Math.floor(memoryMb / 2) * megabyte,
    cpuShare: 100,
  }
}
