import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'

/**
 * Follows what a process holds in memory until the test ends, and gives the most so far above what it holds now, in bytes. What
 * it holds now does not count: garbage of its start among it, 92 to 118 MB of the API on one machine. Nor does what the kernel
 * maps of Node's own file, which it takes back whenever it wants; VmHWM, the highest resident size that it keeps, would count it.
 */
export function watchMemory(pid: number): () => number {
  const heldNow = () => Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1_024
  const atFirst = heldNow()
  let peak = atFirst
  const look = () => {
    peak = Math.max(peak, heldNow())
    return peak - atFirst
  }
  const watching = setInterval(look, 10)
  onTestFinished(() => clearInterval(watching))
  return look
}
