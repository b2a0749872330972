export interface ServerSentEvent<Data> {
  id: string | undefined
  event: string
  /** Parsed from JSON. */
  data: Data
}

/**
 * Reads server-sent events one by one until the server closes; comments and `retry` are passed over. The body is taken at once, because
 * undici cancels a body that nobody reads yet when the garbage collector takes its Response.
 */
export function eventsIn<Data = Record<string, unknown>>(
  body: Response['body'],
): AsyncGenerator<ServerSentEvent<Data>, undefined> {
  if (!body) throw new Error('The answer has no body')
  return readEvents(body.values())
}

async function* readEvents<Data>(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent<Data>, undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      ) as Record<string, string>
      text = text.slice(end + 2)
      const { id, event, data } = fields
      if (event !== undefined && data !== undefined) yield { id, event, data: JSON.parse(data) as Data }
    }
  }
}
