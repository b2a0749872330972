import { PostgresRefused } from '@platform/embedded-postgres/postgres-refused'
import { statfsSync } from 'node:fs'
import { StartProblem } from './start-problem.ts'

/** With less free space than this, Postgres cannot write a WAL segment, and fails in many ways. */
const FREE_BYTES_MIN = 24 * 1_048_576
const NO_LOOPBACK = ['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL']

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return Infinity // a folder that is not there yet
  }
}

/**
 * Why the platform ended, as a sentence a person can act on; the stack of an unexpected error. Checks for a full disk first,
 * since everything fails on one.
 *
 * dataFolder: undefined while none is held.
 */
export function explainFailure(error: unknown, dataFolder: string | undefined): string {
  const { code } = (error ?? {}) as { code?: string }
  const isFull = dataFolder !== undefined && freeBytes(dataFolder) < FREE_BYTES_MIN
  // When initdb says so it has removed what it wrote.
  const wasFull = error instanceof PostgresRefused && error.message.includes('No space left on device')
  if (isFull || wasFull || code === 'ENOSPC')
    return `The disk of DATA_DIR ${dataFolder ?? ''} is full: free some space, 500 MB or more, or name a folder on another disk. What is stored there is safe.`
  if (error instanceof StartProblem || error instanceof PostgresRefused) return error.message
  if (code !== undefined && NO_LOOPBACK.includes(code))
    return `127.0.0.1 cannot be reached (${code}): the platform's processes speak to each other there. Bring the loopback interface up (ip link set lo up).`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
