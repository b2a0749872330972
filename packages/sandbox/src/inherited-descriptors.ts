import { openSync, readdirSync, readFileSync } from 'node:fs'
import type { StdioOptions } from 'node:child_process'

const O_CLOEXEC = 0o2000000

/** Descriptors that this process was started with and that its children would inherit; Node closes its own. */
function listInherited(): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((descriptor) => {
      if (descriptor < 3) return false
      try {
        const [, flags = ''] = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1')) ?? []
        return (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
      } catch {
        // The listing's own descriptor.
        return false
      }
    })
}

let inherited: { descriptors: number[]; nothing: number } | undefined

/**
 * Pipes for standard input and output and descriptor 3, and /dev/null in place of each descriptor that this process
 * inherited: a descriptor of the platform would lead a command past every wall.
 *
 * pipes: further descriptors that are pipes.
 */
export function createStdio(pipes: readonly number[] = []): StdioOptions {
  inherited ??= { descriptors: listInherited(), nothing: openSync('/dev/null', 'r') }
  const { descriptors, nothing } = inherited
  const highest = Math.max(3, ...pipes, ...descriptors)
  return Array.from({ length: highest + 1 }, (_, descriptor) => {
    if (descriptor <= 3 || pipes.includes(descriptor)) return 'pipe'
    return descriptors.includes(descriptor) ? nothing : 'ignore'
  })
}
