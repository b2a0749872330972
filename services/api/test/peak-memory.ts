import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'

/**
 * Follows what a process holds in memory until the test ends, and gives the most so far, in bytes. What the kernel maps of
 * Node's own file is not counted: 58 MB or 84, shared by all processes, which it takes back whenever it wants them. So the
 * highest resident size that the kernel keeps (VmHWM) cannot be used: it counts them as they were then.
 */
export function watchMemory(pid: number): () => number {
  let peak = 0
  const look = () => {
    const held = Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1_024
    if (held > peak) peak = held
    return peak
  }
  const watching = setInterval(look, 10)
  onTestFinished(() => clearInterval(watching))
  return look
}
