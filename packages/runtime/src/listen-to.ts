import postgres from 'postgres'
import type { Logger } from './logger.ts'

const AGAIN_MS = 1_000

/**
 * Listens to a channel of Postgres on a connection of its own, and again whenever that breaks. What is sent in between is
 * lost: a notification says that there is something to read, and must not be the only one to say so.
 *
 * onListening: called each time that listening begins, which is when to look for what was missed.
 */
export function listenTo(
  url: string,
  channel: string,
  { onMessage, onListening, logger }: { onMessage: (payload: string) => void; onListening: () => void; logger: Logger },
): { close(): Promise<void> } {
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  const options = {
    max: 1,
    fetch_types: false,
    idle_timeout: 0,
    connect_timeout: 5,
    max_lifetime: null,
    onnotice: () => {},
    connection: { application_name: `listen ${channel}` },
    // Options of the driver that its types leave out; its own listen() gives up when it cannot reconnect at once.
    onnotify: (_: string, payload: string) => onMessage(payload),
    onclose: () => again(),
  }
  const sql = postgres(url, options)

  function again(): void {
    if (isClosed) return
    clearTimeout(timer)
    timer = setTimeout(start, AGAIN_MS).unref()
  }
  function start(): void {
    sql
      .unsafe(`listen "${channel}"`)
      .then(onListening)
      .catch((error: unknown) => {
        if (!isClosed) logger.warn({ err: error, channel }, 'listening failed')
        again()
      })
  }
  start()

  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      await sql.end({ timeout: 1 })
    },
  }
}
