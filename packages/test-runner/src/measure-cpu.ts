import { readFileSync } from 'node:fs'
import { afterEach, beforeEach } from 'vitest'
import './task-meta.ts'

/** Linux counts in hundredths of a second, whatever the kernel's own tick is. */
const TICK_MS = 10

/**
 * CPU time of this worker and of the child processes that it has waited for, in milliseconds. On Linux alone: elsewhere the time
 * of children is left out.
 */
function cpuMs(): number {
  if (process.platform !== 'linux') {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  }
  const stat = readFileSync('/proc/self/stat', 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // utime, stime, cutime and cstime (proc_pid_stat(5)), counted from the state.
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field) * TICK_MS, 0)
}

let startedAt = 0
beforeEach(() => {
  startedAt = cpuMs()
})
afterEach(({ task }) => {
  task.meta.cpuMs = cpuMs() - startedAt
})
