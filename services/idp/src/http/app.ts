import { randomUUID } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import { OAuthError, Unavailable } from '@platform/errors/api-error'
import { renderError } from '@platform/errors/render-error'
import { isUnavailable } from '@platform/runtime/database'
import { withDeadline } from '@platform/runtime/deadline'
import { preflightHeaders } from '@platform/service/cors'
import { readTrace } from '@platform/service/trace'
import { type Context, Hono } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Deps } from '../deps.ts'
import { answerTo, type Document } from './document.ts'
import { commonHeaders } from './envelope.ts'

const DEADLINE_MS = 30_000

interface Env {
  Bindings: HttpBindings
  Variables: { requestId: string; clientId: string | undefined; cookieBefore: string | undefined }
}

/** One request. `clientId` is set once a client is known, for the log; `cookieBefore` by the first form that needs one. */
export type Ctx = Context<Env>
/** Answers a request, or throws an error that is rendered as a failure. */
export type Handle = (c: Ctx, deps: Deps) => Response | Promise<Response>

/** One path of this service and what its methods do; every other method is 405 with Allow (D19). */
export interface Endpoint {
  path: string
  /** Browsers of any origin may call it, without credentials (D71). Never authorize, never a page. */
  cors: boolean
  GET?: Handle
  POST?: Handle
  /** Instead of GET: an answer prepared in advance, the same for everybody. Only reads memory, so it never throws. */
  document?: () => Document
}

/** The client's address as limits count it (D56). */
export const addressOf = (c: Ctx, deps: Deps): string =>
  deps.addressOf(c.env.incoming.socket.remoteAddress, c.req.header('x-forwarded-for'))

/** Longer values are cut. */
const USER_AGENT_LENGTH_MAX = 512

/** The client's User-Agent, so that the account's owner can recognise it. It can be anything. */
export const userAgentOf = (c: Ctx): string | null =>
  c.req.header('user-agent')?.slice(0, USER_AGENT_LENGTH_MAX) ?? null

const methodsOf = (endpoint: Endpoint): string[] => [
  ...(endpoint.GET || endpoint.document ? ['GET', 'HEAD'] : []),
  ...(endpoint.POST ? ['POST'] : []),
  ...(endpoint.cors ? ['OPTIONS'] : []),
]

const preflight = (c: Ctx, methods: string): Response =>
  c.body(null, 204, preflightHeaders({ methods, headers: 'authorization, content-type', maxAgeSeconds: 86_400 }))

/** A hanging database counts as unavailable, like one that refuses connections (D66). */
const tooLate = () => new Unavailable('The request took too long; try again later')

/** The failure to report for an error: an unavailable database is 503 wherever it was queried (D66). */
const failureOf = (thrown: unknown): unknown => (isUnavailable(thrown) ? new Unavailable(undefined, thrown) : thrown)

function answerFailure(c: Ctx, failure: unknown): Response {
  const { status, headers, body } = renderError('oauth', failure, { path: c.req.path, requestId: c.get('requestId') })
  return c.body(body, status as ContentfulStatusCode, headers)
}

/**
 * Answers with a document if its path is spelled in another way, for example with a query; documents-first.ts answers the
 * rest.
 */
function answerDocument(c: Ctx, document: Document): Response {
  const { status, headers, body } = answerTo(document, c.req.header('if-none-match'))
  const pairs = Array.from({ length: headers.length / 2 }, (_, i) => [headers[2 * i] ?? '', headers[2 * i + 1] ?? ''])
  return new Response(body, { status, headers: Object.fromEntries(pairs) as Record<string, string> })
}

/**
 * The service as one function from Request to Response. Each request runs through one composed handler: request id and CORS
 * headers, the endpoint, failures in the shape of RFC 6749, metrics, a log line. Queries and bodies are never logged.
 * answerMissing handles paths without an endpoint.
 */
export function createApp(deps: Deps, endpoints: readonly Endpoint[], answerMissing: Handle): Hono<Env> {
  const app = new Hono<Env>()

  const run = (operation: string, handle: Handle, cors: boolean) => {
    const common = commonHeaders(cors)
    return async (c: Ctx): Promise<Response> => {
      const startedAt = performance.now()
      const requestId = randomUUID() // nothing is sorted by it, and a UUIDv7 costs 8 µs
      c.set('requestId', requestId)
      // Not by c.header: that makes a Headers of them, which costs more than all the rest of this function.
      const { incoming, outgoing } = c.env
      // Now: a destroyed request has no socket any more.
      const address = deps.addressOf.exact(incoming.socket.remoteAddress, c.req.header('x-forwarded-for'))
      outgoing.setHeader('x-request-id', requestId)
      for (const [name, value] of common) outgoing.setHeader(name, value)
      let response: Response
      let failure: unknown
      try {
        response = await withDeadline(DEADLINE_MS, tooLate, Promise.resolve(handle(c, deps)))
      } catch (thrown) {
        failure = failureOf(thrown)
        response = answerFailure(c, failure)
      }
      deps.recordRequest({
        operation,
        requestId,
        traceId: readTrace(c.req.header('traceparent'))?.traceId,
        method: c.req.method,
        status: response.status,
        startedAt,
        failure,
        details: {
          clientId: c.get('clientId'),
          path: c.req.path,
          address,
        },
      })
      return response
    }
  }

  for (const endpoint of endpoints) {
    const { path, cors, document } = endpoint
    const allow = methodsOf(endpoint).join(', ')
    const GET = document ? (c: Ctx) => answerDocument(c, document()) : endpoint.GET
    const refuse = () => {
      throw new OAuthError(405, 'invalid_request', 'This method is not allowed here', { allow })
    }
    const get = GET && run(`GET ${path}`, GET, cors)
    const answers: Record<string, ReturnType<typeof run> | undefined> = {
      GET: get,
      HEAD: get,
      POST: endpoint.POST && run(`POST ${path}`, endpoint.POST, cors),
      OPTIONS: cors ? run(`OPTIONS ${path}`, (c) => preflight(c, allow), cors) : undefined,
    }
    const otherwise = run('unknown', refuse, cors)
    // One handler per path: if several match, Hono composes them again for every request.
    app.all(path, (c) => (answers[c.req.method] ?? otherwise)(c))
  }
  app.notFound(run('unknown', answerMissing, false))
  return app
}
