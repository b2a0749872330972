import { newIdAt } from '@platform/runtime/new-id'
import type { TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { openRequestLog, type ServedRequest } from '../../../services/api/src/areas/observe/request-logs/write.ts'
import { openRuntimeLog, type RuntimeLogLine } from '../../../services/api/src/areas/observe/runtime-logs/write.ts'
import { servedRequest } from '../../../services/api/test/scenario.ts'

/** What the requests and lines of a test belong to. */
export interface LogPlace {
  applicationId: string
  deploymentId: string
}

/** Stores requests as an edge does, and tells those who follow. */
export async function addRequests(
  { api }: TestPlatform,
  { applicationId, deploymentId }: LogPlace,
  requests: readonly Partial<ServedRequest>[],
): Promise<void> {
  const log = openRequestLog(api)
  for (const request of requests) log.write(servedRequest({ applicationId, deploymentId, ...request }))
  await log.close()
}

/** Stores lines as an edge does, and tells those who follow. */
export async function addLines(
  { api }: TestPlatform,
  place: LogPlace,
  lines: readonly Partial<RuntimeLogLine>[],
): Promise<void> {
  const log = openRuntimeLog(api)
  for (const line of lines)
    log.write({
      ...place,
      functionId: '0190dddd-0000-7000-8000-000000000001',
      functionName: 'api/checkout',
      slot: 0,
      requestId: undefined,
      level: 'INFO',
      message: 'hello',
      at: new Date(),
      ...line,
    })
  await log.close()
}

/** So many lines of the last minutes, one each 5 ms, in the partitions that there are for today. Returns the first one's id. */
export async function addManyLines(platform: TestPlatform, place: LogPlace, count: number): Promise<string> {
  const first = Date.now() - count * 5
  // As they make the partitions of their days.
  await addLines(platform, place, [{ at: new Date(first), message: 'the very first' }, { message: 'before the many' }])
  await platform.api.db.execute(sql`
    insert into runtime_logs (id, application_id, deployment_id, function_id, function_name, slot, level, message)
    select (lpad(to_hex(${first}::bigint + n * 5), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
      ${place.applicationId}::uuid, ${place.deploymentId}::uuid, '0190dddd-0000-7000-8000-000000000001', 'api/checkout', 0,
      case when n % 1000 = 7 then 'ERROR' else 'INFO' end, 'line ' || n || ' of many'
    from generate_series(1, ${count - 2}) n`)
  const [row] = await platform.api.db.execute<{ id: string }>(sql`
    select id from runtime_logs where application_id = ${place.applicationId}::uuid order by id limit 1`)
  return row?.id ?? ''
}

/** The request with headers and lines that is opened in the tests. */
export interface LogsFull {
  requestId: string
}

const paths = ['/', '/products', '/products/42?ref=mail', '/api/checkout', '/img/logo.svg', '/api/cart/items']

/** Requests of each kind, and lines of each level, the same whenever a test runs. */
export async function addLogs(platform: TestPlatform, place: LogPlace): Promise<LogsFull> {
  const minuteAgo = Date.now() - 60_000
  const requestId = newIdAt(new Date(minuteAgo + 59_000))
  const fn = {
    id: '0190dddd-0000-7000-8000-000000000001',
    name: 'checkout',
    path: 'api/checkout',
    region: 'local',
  }
  const requests = Array.from({ length: 120 }, (_, n): Partial<ServedRequest> => {
    const startedAt = new Date(minuteAgo + n * 400)
    const [path = '/', query = ''] = (paths[n % paths.length] ?? '/').split('?')
    return {
      startedAt,
      completedAt: new Date(startedAt.getTime() + ((n * 37) % 900)),
      path,
      query,
      method: n % 7 === 3 ? 'POST' : 'GET',
      status: n % 19 === 5 ? 502 : n % 11 === 4 ? 404 : n % 13 === 6 ? 304 : 200,
      cacheStatus: path.startsWith('/api') ? undefined : n % 3 === 0 ? 'miss' : 'hit',
    }
  })
  const startedAt = new Date(minuteAgo + 59_000)
  await addRequests(platform, place, [
    ...requests,
    {
      id: requestId,
      startedAt,
      completedAt: new Date(startedAt.getTime() + 412),
      method: 'POST',
      path: '/api/checkout',
      query: 'step=pay',
      status: 500,
      servedBy: { deploymentStatus: 'ACTIVE', deploymentFunction: fn },
      country: 'DE',
      region: 'local',
      edgeLocation: 'local',
      requestHeaders: { accept: 'application/json', 'user-agent': 'curl/8.9.1', 'x-cart': 'c'.repeat(300) },
      responseHeaders: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    },
  ])
  const lines = Array.from({ length: 60 }, (_, n): Partial<RuntimeLogLine> => ({
    at: new Date(minuteAgo + n * 500),
    level: (['INFO', 'DEBUG', 'INFO', 'WARN'] as const)[n % 4] ?? 'INFO',
    message: n % 9 === 2 ? `\u001b[32m✓\u001b[0m cart ${n} is saved` : `cart ${n} has ${n % 5} items`,
  }))
  await addLines(platform, place, [
    ...lines,
    { at: startedAt, requestId, level: 'INFO', message: 'paying 42.00 EUR' },
    {
      at: startedAt,
      requestId,
      level: 'ERROR',
      message: 'TypeError: the price of tea is undefined\n    at pay (checkout.js:12:7)',
    },
  ])
  return { requestId }
}

const main = (page: Page) => page.getByRole('main')

/** The pages of an application with logs, which the organization of a full home has beside others. */
export interface LogHome extends LogsFull {
  path: string
}

/** Gives logs to one of the applications of a full home, which nothing else is told of. */
export async function newLogHome(platform: TestPlatform, organization: string): Promise<LogHome> {
  const place = {
    applicationId: '0190aaaa-0000-7000-8000-000000000007',
    deploymentId: '0190eeee-0000-7000-8000-000000000001',
  }
  return { path: `${organization}/service-7`, ...(await addLogs(platform, place)) }
}

/** The screens of the logs, for states.chromium.test.ts. Their lists are kept up to date by a stream and not asked again. */
export const logScreens = [
  {
    name: 'logs',
    path: ({ logs }: { logs: LogHome }) => `${logs.path}/logs`,
    reads: /\/requests\?/,
    ready: (page: Page) => main(page).getByText('/api/checkout?step=pay'),
    isReadOnce: true,
  },
  {
    name: 'logs lines',
    path: ({ logs }: { logs: LogHome }) => `${logs.path}/logs?view=lines`,
    reads: /\/runtime-logs\?/,
    ready: (page: Page) => main(page).getByText('TypeError: the price of tea').first(),
    isReadOnce: true,
  },
  {
    name: 'logs request',
    path: ({ logs }: { logs: LogHome }) => `${logs.path}/logs?request=${logs.requestId}`,
    reads: /\/requests\/[0-9a-f-]{36}/,
    ready: (page: Page) => main(page).getByText('paying 42.00 EUR'),
  },
]
