import type { HttpBindings } from '@hono/node-server'
import { NotFound, OAuthError } from '@platform/errors/api-error'
import { Hono } from 'hono'
import type { Deps } from '../deps.ts'
import type { Endpoint } from './endpoint.ts'
import { throttleAddress, authenticate, DEADLINE_MS, exchange, type Exchange, type Reply } from './exchange.ts'
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

/** Mounts the operations. Each has one composed handler; there is no middleware. */
export function createApp(deps: Deps, endpoints: readonly Endpoint[]): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>({
    getPath: (_, options) => pathOf(options?.env?.incoming.url),
  })
  for (const { method, path, aliases, operation, run, deadlineMs } of endpoints) {
    app.on(method, [path, ...aliases].map(honoPath), exchange(deps, operation, run, deadlineMs))
  }
  app.notFound(exchange(deps, 'unknown', answerUnknown, DEADLINE_MS))
  return app
}
