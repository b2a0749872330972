import { subscribe, unsubscribe } from 'node:diagnostics_channel'

const CHANNEL = 'platform:database:statement'

/** The texts of the statements that this process sends to Postgres until `run` has resolved, in their order; values are not in them. */
export async function sentStatements(run: () => Promise<unknown>): Promise<string[]> {
  const texts: string[] = []
  const add = (message: unknown) => void texts.push((message as { text: string }).text)
  subscribe(CHANNEL, add)
  try {
    await run()
    return texts
  } finally {
    unsubscribe(CHANNEL, add)
  }
}
