import { getRequestListener } from '@hono/node-server'
import { startHealth } from '@platform/runtime/health'
import { listen } from '@platform/runtime/http-server'
import { sql } from 'drizzle-orm'
import type { Deps } from './deps.ts'
import { listEndpoints } from './endpoints.ts'
import { createApp } from './http/app.ts'
import { documentsFirst } from './http/documents-first.ts'
import { startHousekeeping } from './housekeeping.ts'

/** How long readiness says no before the door closes, so that a load balancer has looked. */
const NOTICE_MS = 5_000

interface Idp {
  port: number
  healthPort: number
  /** Readiness fails, then no new connection, then what is under way ends. noticeMs: how long readiness fails first. */
  stop(noticeMs?: number): Promise<void>
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
  const health = await startHealth(healthHost, healthPort, async () => {
    await deps.db.execute(sql`select 1`)
    return true
  }).catch(async (error: unknown) => {
    await server.stop(0)
    throw error
  })
  const housekeeping = startHousekeeping(deps)
  return {
    port: server.port,
    healthPort: health.port,
    async stop(noticeMs = NOTICE_MS) {
      health.draining()
      housekeeping.stop()
      await new Promise((resolve) => setTimeout(resolve, noticeMs))
      await server.stop()
      await health.stop()
    },
  }
}
