import { subscribe, unsubscribe } from 'node:diagnostics_channel'

const CHANNEL = 'platform:database:statement'

/** How many statements this process sends to Postgres until `run` has resolved. */
export async function countStatements(run: () => Promise<unknown>): Promise<number> {
  let count = 0
  const add = () => void count++
  subscribe(CHANNEL, add)
  try {
    await run()
    return count
  } finally {
    unsubscribe(CHANNEL, add)
  }
}
