import type { Logger } from '@platform/runtime/logger'
import { collectDefaultMetrics, register } from 'prom-client'
import type { BuildInfo } from './build-info.ts'
import { listen } from './http-server.ts'
import { textBody, unreadableRequest } from './unreadable-request.ts'

export interface Health {
  port: number
  /** From now on readiness is what this resolves to. */
  readyWhile(isReady: () => Promise<boolean>): void
  /** Makes readiness fail, so that load balancers stop sending requests before the listener closes. */
  draining(): void
  stop(): Promise<void>
}

/**
 * Starts the internal listener: `/live` (touches nothing, and reports the build), `/ready` (503 until `readyWhile` is called, while
 * what that got resolves to false, and while draining) and `/metrics` (Prometheus). It is never on the public port (D12).
 */
export async function startHealth(host: string, port: number, build: BuildInfo, logger: Logger): Promise<Health> {
  // Process metrics: CPU, memory, event-loop lag, garbage collection. Registered once, however often a test listens.
  if (!register.getSingleMetric('process_cpu_seconds_total')) collectDefaultMetrics()
  let isReady = async (): Promise<boolean> => false
  let isDraining = false
  const server = await listen(
    (req, res) => {
      const answer = (status: number, body: string, type = 'text/plain') =>
        void res.writeHead(status, { 'content-type': type }).end(body)
      if (req.url === '/live') answer(200, JSON.stringify({ status: 'ok', ...build }), 'application/json')
      else if (req.url === '/ready') {
        isReady().then(
          (ready) => answer(ready && !isDraining ? 200 : 503, ready && !isDraining ? 'ready' : 'not ready'),
          () => answer(503, 'not ready'),
        )
      } else if (req.url === '/metrics') {
        register.metrics().then(
          (text) => answer(200, text, register.contentType),
          () => answer(500, 'metrics failed'),
        )
      } else answer(404, 'not found')
    },
    host,
    port,
    unreadableRequest(logger, 'GET, HEAD', textBody).refusal,
  )
  return {
    port: server.port,
    readyWhile: (asked) => void (isReady = asked),
    draining: () => void (isDraining = true),
    stop: () => server.stop(0),
  }
}
