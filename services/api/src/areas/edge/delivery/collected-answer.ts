import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { CollectedBody } from './collected-body.ts'
import { openOwnRequest } from './own-request.ts'

/** More than any response's headers. */
const HEAD_BYTES_MAX = 262_144
const END_OF_HEAD = '\r\n\r\n'

/** A response in memory. */
interface CollectedAnswer {
  status: number
  /** Names in lower case; of repeated headers, the last one. */
  headers: Record<string, string>
  body: Buffer
}

/**
 * Makes an internal GET request, hands it to the server, and collects the response. The body is `undefined` if it is longer than
 * bytesMax, or if too many are being collected for its deployment.
 *
 * Rejects with the signal's reason if it is aborted, and with an error if the response breaks off.
 */
export async function collectAnswer(
  {
    url,
    headers,
    deploymentId,
    bytesMax,
  }: { url: string; headers: Record<string, string>; deploymentId: string; bytesMax: number },
  signal: AbortSignal,
  answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
): Promise<CollectedAnswer | undefined> {
  signal.throwIfAborted()
  const collected = new CollectedBody(deploymentId, bytesMax + HEAD_BYTES_MAX)
  let isTooLong = false
  const { incoming, outgoing, connection } = openOwnRequest({ url, headers }, (chunk) => {
    isTooLong = !collected.add(chunk)
    return !isTooLong
  })
  const abort = () => void connection.destroy()
  signal.addEventListener('abort', abort, { once: true })
  const closed = once(outgoing, 'close')
  try {
    answer(incoming, outgoing)
    await closed
    signal.throwIfAborted()
    if (isTooLong) return undefined
    if (!outgoing.writableFinished) throw new Error('The answer broke off')
    const whole = collected.whole() ?? Buffer.alloc(0)
    const end = whole.indexOf(END_OF_HEAD)
    const lines = whole.toString('latin1', 0, end).split('\r\n').slice(1)
    const pairs = lines.map((line): [string, string] => {
      const index = line.indexOf(':')
      return [line.slice(0, index).toLowerCase(), line.slice(index + 1).trim()]
    })
    const body = whole.subarray(end + END_OF_HEAD.length)
    return body.length > bytesMax
      ? undefined
      : { status: outgoing.statusCode, headers: Object.fromEntries(pairs), body }
  } finally {
    signal.removeEventListener('abort', abort)
    collected.forget()
    connection.destroy()
  }
}
