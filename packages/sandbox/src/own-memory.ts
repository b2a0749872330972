import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findOwnGroup, readGroupPaths } from './control-groups.ts'

/** The memory of this process's own control group, which a container's runtime limits: all of the container ends at it. */
export interface OwnMemory {
  /** The limit in bytes; infinite if there is none. */
  limitBytes(): number
  /** What the kernel counts against the limit, in bytes. */
  countedBytes(): number
  /** The same without what it can take back before it ends anything, above all cached files. Takes a little longer. */
  heldBytes(): number
}

/** Names of the files of a group. */
interface Layout {
  limit: string
  counted: string
  /** Lines of memory.stat that can be taken back. */
  reclaimable: string[]
  /** Counted memory of the kernel, most of which can be taken back: version 1 does not say how much. */
  kernel?: string
}

const V1: Layout = {
  limit: 'memory.limit_in_bytes',
  counted: 'memory.usage_in_bytes',
  reclaimable: ['total_inactive_file', 'total_active_file'],
  kernel: 'memory.kmem.usage_in_bytes',
}
const V2: Layout = {
  limit: 'memory.max',
  counted: 'memory.current',
  reclaimable: ['inactive_file', 'active_file', 'slab_reclaimable'],
}

/** Of a group's folder, in the layout of either version. */
function readMemory(folder: string, { limit, counted, reclaimable, kernel }: Layout): OwnMemory {
  const read = (file: string): string => readFileSync(join(folder, file), 'latin1').trim()
  const countedBytes = (): number => Number(read(counted))
  const memory = {
    limitBytes: () => {
      const text = read(limit)
      // Version 1 has a number for none, which depends on the size of pages.
      return text === 'max' || Number(text) > 2 ** 60 ? Number.POSITIVE_INFINITY : Number(text)
    },
    countedBytes,
    heldBytes: () => {
      const numbers = new Map(
        read('memory.stat')
          .split('\n')
          .map((line): [string, number] => [
            line.slice(0, line.indexOf(' ')),
            Number(line.slice(line.indexOf(' ') + 1)),
          ]),
      )
      const kernelBytes = kernel !== undefined && existsSync(join(folder, kernel)) ? Number(read(kernel)) : 0
      return countedBytes() - kernelBytes - reclaimable.reduce((sum, name) => sum + (numbers.get(name) ?? 0), 0)
    },
  }
  // Throws if a file is missing.
  memory.limitBytes()
  memory.heldBytes()
  return memory
}

/** undefined where no group of this process counts memory: the root group does not. paths: this process's, by default. Linux only. */
export function openOwnMemory(paths = readGroupPaths()): OwnMemory | undefined {
  for (const [controller, layout] of [[undefined, V2] as const, ['memory', V1] as const]) {
    const folder = findOwnGroup(paths, controller)
    if (folder === undefined) continue
    try {
      return readMemory(folder, layout)
    } catch {
      // Of this version there is a hierarchy without memory.
    }
  }
  return undefined
}
