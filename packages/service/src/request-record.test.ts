import { createLogger } from '@platform/runtime/logger'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import { createRequestRecord } from './request-record.ts'

const ask = { requestId: 'r', traceId: undefined, method: 'GET', details: { actor: 'ana' } }

test.each([
  [200, undefined, 30, 'request'],
  [404, new Error('nothing'), 30, 'request'],
  [500, new Error('broken'), 50, 'request failed'],
  [503, new Error('away'), 40, 'a dependency is away'],
])('a request that ends with %i has a line and is counted', async (status, failure, level, msg) => {
  const lines: string[] = []
  const record = createRequestRecord(createLogger('test', 'info', { write: (line) => void lines.push(line) }))
  const operation = `tested ${status}`
  record({ ...ask, operation, status, failure, startedAt: performance.now() - 20 })
  const line = JSON.parse(lines.join('')) as Record<string, unknown>
  expect(line).toMatchObject({ level, msg, requestId: 'r', operation, method: 'GET', status, actor: 'ana' })
  expect(line.durationMs).toBeGreaterThanOrEqual(20)
  expect(line.err).toEqual(status < 500 ? undefined : expect.objectContaining({ message: failure?.message }))
  expect(await register.metrics()).toContain(
    `http_request_duration_seconds_count{operation="${operation}",status="${status}"} 1`,
  )
})
