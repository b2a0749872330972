import type { HttpBindings } from '@hono/node-server'
import { NotFound, OAuthError } from '@platform/errors/api-error'
import { Hono } from 'hono'
import type { Core } from '../core.ts'
import type { Endpoint, Operation } from './endpoint.ts'
import {
  authenticate,
  DEADLINE_MS,
  exchange,
  type Exchange,
  type HonoContext,
  type Reply,
  throttleAddress,
} from './exchange.ts'
import { pathOf } from './request-target.ts'

const honoPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ':$1')

/**
 * Answers paths that match no operation: 404 below paths that need no credential; everywhere else the caller must
 * authenticate first (A §5).
 */
async function answerUnknown(current: Exchange): Promise<Reply> {
  const { path } = current
  if (path === '/oauth2/token') {
    await throttleAddress(current)
    throw new OAuthError(405, 'invalid_request', 'The token endpoint takes POST', { allow: 'POST' })
  }
  const isOpen = path.startsWith('/.well-known/') || path.startsWith('/docs')
  await (isOpen ? throttleAddress(current) : authenticate(current))
  throw new NotFound('Resource')
}

/** An operation that has the deps it runs on. */
export interface BoundEndpoint extends Operation {
  readonly answer: (c: HonoContext) => Promise<Response>
}

/** Gives an operation the deps it runs on. */
export function bindEndpoint<Deps extends Core>(deps: Deps, { run, ...operation }: Endpoint<Deps>): BoundEndpoint {
  return { ...operation, answer: exchange(deps, operation.operation, run, operation.deadlineMs) }
}

/** Mounts the operations. Each has one composed handler; there is no middleware. core: of what is no operation. */
export function createApp(core: Core, endpoints: readonly BoundEndpoint[]): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>({
    getPath: (_, options) => pathOf(options?.env?.incoming.url),
  })
  for (const { method, path, aliases, answer } of endpoints) app.on(method, [path, ...aliases].map(honoPath), answer)
  app.notFound(exchange(core, 'unknown', answerUnknown, DEADLINE_MS))
  return app
}
