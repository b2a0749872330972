import { randomUUID } from 'node:crypto'
import type { Logger } from '@platform/runtime/logger'
import type { Refusal, Refused } from './http-server.ts'

type Body = Omit<Refused, 'requestId'>

/** Why a request was refused. */
interface Problem {
  /** 400, 408 or 431, or 405 for CONNECT. */
  status: number
  /** A sentence without a full stop. */
  message: string
  requestId: string
}

const messages: Readonly<Record<number, string>> = {
  405: 'CONNECT is for proxies, and this is none',
  408: 'The request took too long to arrive',
  431: 'The headers of the request are too large',
}

/** Makes a body for `unreadableRequest`: the error in the service's own shape. */
export const jsonBody = (error: object): Body => ({
  type: 'application/json; charset=UTF-8', // as Hono spells it
  body: JSON.stringify(error),
})

/** Makes a body for `unreadableRequest`, where errors are sentences. */
export const textBody = ({ message }: Problem): Body => ({ type: 'text/plain; charset=UTF-8', body: `${message}\n` })

/**
 * Responds to requests that no listener sees: what is not valid HTTP, and CONNECT. Each response has a request id, and a log line
 * with the problem but never the client's bytes. allow: the methods that this place answers. render: makes the body. details: more
 * members of the log line.
 */
export function unreadableRequest(
  logger: Logger,
  allow: string,
  render: (problem: Problem) => Body,
  details: Readonly<Record<string, string>> = {},
) {
  const refuse = (status: number, code: string | undefined, peer?: string): Refused => {
    const requestId = randomUUID()
    const isConnect = status === 405
    logger.info({ requestId, status, code, peer, ...details }, isConnect ? 'refused method' : 'unreadable request')
    const { headers, ...rendered } = render({
      status,
      message: messages[status] ?? 'The request is not valid HTTP',
      requestId,
    })
    return { requestId, ...rendered, headers: { ...headers, ...(isConnect && { Allow: allow }) } }
  }
  return {
    /** For requests without a URL, for example `OPTIONS *` or without a host: the errorHandler of @hono/node-server. */
    errorHandler: (): Response => {
      const { requestId, type, body } = refuse(400, 'NO_URL')
      return new Response(body, { status: 400, headers: { 'content-type': type, 'x-request-id': requestId } })
    },
    /** For bytes that Node cannot parse, and for CONNECT. */
    refusal: refuse satisfies Refusal,
  }
}
