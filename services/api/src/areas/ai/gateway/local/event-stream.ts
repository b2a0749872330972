import { setImmediate as nextTick } from 'node:timers/promises'

/** The content type of Server-Sent Events. */
export const EVENT_STREAM = 'text/event-stream; charset=utf-8'

/**
 * Writes values as Server-Sent Events, each after the previous one has been consumed and other work of the process has had a
 * chance to run. Fails with the signal's reason once it is aborted.
 *
 * ending: sent verbatim after the last event.
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

/** Splits a text into words, each with the whitespace after it. */
export function wordsOf(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? []
}
