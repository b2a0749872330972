import { holding } from '@platform/testkit/holding'
import type postgres from 'postgres'
import type { TestIdp } from './start.ts'

const RACERS = 50
/** Fewer than the connections of the service, since each keeps one while it waits. */
const ALONE = 7

/**
 * Sends a request fifty times at once and returns the answers. The first seven, and then as many as the service has connections
 * for, have read the row and wait for its lock, which `take` holds; the others follow. The clock stands still meanwhile: to the
 * product, whoever loses after ten seconds is not a racer (D61).
 */
export async function raceFifty<Answer>(
  idp: TestIdp,
  take: (sql: postgres.TransactionSql) => Promise<unknown>,
  send: () => Promise<Answer>,
): Promise<Answer[]> {
  const resumeClock = idp.holdClock()
  const racer = (count: number) => () => Promise.all(Array.from({ length: count }, () => send()))
  const alone = Array.from({ length: ALONE }, () => racer(1))
  try {
    return (await holding<Answer[][]>(idp.databaseUrl, take, [...alone, racer(RACERS - ALONE)])).flat()
  } finally {
    resumeClock()
  }
}
