import { getRequestListener } from '@hono/node-server'
import { startHealth } from '@platform/service/health'
import { listen } from '@platform/service/http-server'
import type { Deps } from './deps.ts'
import { listEndpoints } from './endpoints.ts'
import { createApp } from './http/app.ts'
import { documentsFirst } from './http/documents-first.ts'
import { startHousekeeping } from './housekeeping.ts'

interface Idp {
  port: number
  healthPort: number
  /**
   * Readiness fails and answers close their connections; after noticeMs no new connection is accepted, and what is under way
   * ends. 0: at once, where nobody has to be told.
   */
  stop(noticeMs: number): Promise<void>
}

const jsonType = 'application/json; charset=UTF-8'
const unreadable = JSON.stringify({ error: 'invalid_request', error_description: 'The request is not valid HTTP' })
/** What has no URL, such as a request for `*` or one without a host, reaches no endpoint. */
const refuseUnreadable = () => new Response(unreadable, { status: 400, headers: { 'content-type': jsonType } })

/** Serves the identity provider on deps.listenOn (port 0: any free one). Rejects when a port is taken. */
export async function startIdp(deps: Deps): Promise<Idp> {
  const endpoints = listEndpoints(deps)
  const app = createApp(deps, endpoints)
  const { host, port, healthHost, healthPort } = deps.listenOn
  const answer = getRequestListener(app.fetch, { errorHandler: refuseUnreadable })
  const server = await listen(
    documentsFirst(deps, endpoints, (request, response) => void answer(request, response)),
    host,
    port,
    () => ({ type: jsonType, body: unreadable }),
  )
  const health = await startHealth(healthHost, healthPort, deps.isDatabaseAnswering).catch(async (error: unknown) => {
    await server.stop(0)
    throw error
  })
  const housekeeping = startHousekeeping(deps)
  return {
    port: server.port,
    healthPort: health.port,
    async stop(noticeMs) {
      health.draining()
      const housekeepingEnded = housekeeping.stop()
      if (noticeMs > 0) {
        server.drain()
        await new Promise((resolve) => setTimeout(resolve, noticeMs))
      }
      await server.stop()
      await housekeepingEnded
      await health.stop()
    },
  }
}
