import type { ServerResponse } from 'node:http'

/** Writes a chunk. Resolves once the kernel has taken it, so its memory can be reused. Rejects if the client has left. */
export function sendChunk(outgoing: ServerResponse, chunk: Buffer): Promise<void> {
  const { socket } = outgoing.req
  return new Promise((resolve, reject) => {
    // A pipelined response queued behind another gets no event when their connection closes.
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
 * Answers with a buffer, or with chunks whose memory may be reused once the next one is requested. The head is sent with the
 * first chunk, so a source that fails at once is answered with an error status.
 *
 * Rejects with the source's failure, and if the client leaves; either stops reading from the source.
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
