import type { ServerResponse } from 'node:http'

const NOTHING = Buffer.alloc(0)

/**
 * Sends the head of an answer before there is a body, with the bytes of its header values as they were read. `flushHeaders` would
 * encode them as UTF-8, since it writes the head as text. An answer that has no body sends its head when it ends.
 */
export function flushHead(outgoing: ServerResponse): void {
  outgoing.write(NOTHING)
}
