import { randomUUID } from 'node:crypto'
import type { Logger } from '@platform/runtime/logger'
import type { Refusal } from './http-server.ts'

interface Body {
  type: string
  body: string
}

/** Makes a body for `unreadableRequest`: the error in the service's own shape. */
export const jsonBody = (error: object): Body => ({
  type: 'application/json; charset=UTF-8', // as Hono spells it
  body: JSON.stringify(error),
})

/**
 * Responds to requests that are not valid HTTP. Each response has a request id, and a log line with the problem but never the
 * client's bytes. render: makes the body.
 */
export function unreadableRequest(logger: Logger, render: (requestId: string) => Body) {
  const refuse = (status: number, code: string | undefined, peer?: string) => {
    const requestId = randomUUID()
    logger.info({ requestId, status, code, peer }, 'unreadable request')
    return { requestId, ...render(requestId) }
  }
  return {
    /** For requests without a URL, for example `OPTIONS *` or without a host: the errorHandler of @hono/node-server. */
    errorHandler: (): Response => {
      const { requestId, type, body } = refuse(400, 'NO_URL')
      return new Response(body, { status: 400, headers: { 'content-type': type, 'x-request-id': requestId } })
    },
    /** For bytes that Node cannot parse. */
    refusal: refuse satisfies Refusal,
  }
}
