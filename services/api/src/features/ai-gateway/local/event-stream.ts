import { setImmediate as nextTick } from 'node:timers/promises'

/** The content type of Server-Sent Events. */
export const EVENT_STREAM = 'text/event-stream; charset=utf-8'

/**
 * Writes values as Server-Sent Events, each when the one before has been taken and other work of the process had its turn.
 * Fails with the signal's reason once it is aborted.
 *
 * ending: sent behind the last event as it is.
 */
export async function* writeEvents(
  events: Iterable<unknown>,
  signal: AbortSignal,
  ending = '',
): AsyncGenerator<Uint8Array> {
  for (const event of events) {
    await nextTick()
    signal.throwIfAborted()
    yield Buffer.from(`data: ${JSON.stringify(event)}\n\n`)
  }
  if (ending !== '') yield Buffer.from(ending)
}

/** Cuts a text into words, each with the space behind it. */
export function wordsOf(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? []
}
