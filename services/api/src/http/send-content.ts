import type { ServerResponse } from 'node:http'

/** Writes a chunk. Resolves once the kernel has taken it, so that its memory can be used again. Rejects when the client has left. */
export function sendChunk(outgoing: ServerResponse, chunk: Buffer): Promise<void> {
  const { socket } = outgoing.req
  return new Promise((resolve, reject) => {
    // A pipelined response that waits behind another is not told when their connection closes.
    const leave = () => reject(new Error('The reader left'))
    if (socket.destroyed) leave()
    socket.once('close', leave)
    outgoing.write(chunk, (error) => {
      socket.off('close', leave)
      if (error) reject(error)
      else resolve()
    })
  })
}

/**
 * Answers with a buffer, or with chunks that may be reused once the next is asked for. The head goes out with the first chunk,
 * so that a source that fails at once is answered with a status.
 *
 * Rejects with the source's failure, and when the client leaves; both end the reading of the source.
 */
export async function sendContent(
  outgoing: ServerResponse,
  { status, headers }: { status: number; headers?: Record<string, string> | undefined },
  content: Buffer | AsyncIterable<Buffer>,
): Promise<void> {
  if (Buffer.isBuffer(content)) {
    outgoing.writeHead(status, headers).end(content)
    return
  }
  for await (const chunk of content) {
    if (!outgoing.headersSent) outgoing.writeHead(status, headers)
    await sendChunk(outgoing, chunk)
  }
  outgoing.end()
}
