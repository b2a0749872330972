import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, inArray } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { applications } from '../../../services/api/src/areas/tenancy/applications/table.ts'
import { buildLogs } from '../../../services/api/src/areas/deploy/deployments/table.ts'
import { requestLogs } from '../../../services/api/src/areas/observe/request-logs/table.ts'
import { openRequestLog } from '../../../services/api/src/areas/observe/request-logs/write.ts'
import { newOwner, type Owner, servedRequest } from '../../../services/api/test/scenario.ts'
import {
  all,
  createApplication,
  createDeployment,
  createApplicationVariable,
  follow,
  getOrganization,
  listApplications,
  listBuildLogs,
  listEnvironments,
  listRequests,
  listActivity,
  type Operation,
  pagesOf,
  Platform,
  staticToken,
  streamActivity,
} from '../src/index.ts'

const COUNT = 1_000

let server: TestPlatform
let owner: Owner
let platform: Platform
beforeAll(async () => {
  server = await startPlatform()
  owner = await newOwner(server)
  platform = new Platform({ baseUrl: server.apiUrl, credential: staticToken(owner.token) })
})
afterAll(() => server.close())

const numbers = Array.from({ length: COUNT }, (_, n) => n)
/** UUIDv7s of the past, in order. */
const idOf = (n: number): string => `01900000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`

/** Walks a list and calls `between` after each hundredth item. Returns what `read` makes of the items. */
async function walk<T>(items: AsyncIterable<T>, read: (item: T) => string, between: (walked: T[]) => Promise<unknown>) {
  const walked: T[] = []
  for await (const item of items) if (walked.push(item) % 100 === 0) await between(walked)
  return walked.map(read)
}

test('1,000 applications come once each while others are created and walked ones deleted (from)', async () => {
  const { db } = server.api
  const { organizationId, applicationId } = owner
  const [row] = await db.select().from(applications).where(eq(applications.id, applicationId))
  if (!row) throw new Error('There is no application')
  await db.insert(applications).values(numbers.map((n) => ({ ...row, id: idOf(n), name: `n-${n}`, slug: `n-${n}` })))
  const names = await walk(
    all(listApplications, platform, { organizationId }),
    ({ name }) => name,
    async (walked) => {
      await createApplication(platform, { body: { name: `new-${walked.length}`, organizationId } }).catch(() => {})
      await db.delete(applications).where(
        inArray(
          applications.id,
          walked.slice(-50, -1).map(({ id }) => id),
        ),
      )
    },
  )
  expect(names.filter((name) => name.startsWith('n-'))).toEqual(numbers.map((n) => `n-${n}`).toReversed())
  await db.delete(applications).where(inArray(applications.id, numbers.map(idOf)))
})

test('1,000 requests come once each while others arrive and walked ones are deleted (cursor)', async () => {
  const { db } = server.api
  const { applicationId } = owner
  const record = async (paths: string[]) => {
    const log = openRequestLog(server.api)
    for (const path of paths) log.write(servedRequest({ applicationId, path }))
    await log.close()
  }
  await record(numbers.map((n) => `/${n}`))
  const paths = await walk(
    all(listRequests, platform, { id: applicationId }),
    ({ request }) => request.path,
    async (walked) => {
      await record([`/new-${walked.length}`])
      const ids = walked.slice(-50, -1).map(({ id }) => id)
      await db
        .delete(requestLogs)
        .where(and(eq(requestLogs.applicationId, applicationId), inArray(requestLogs.id, ids)))
    },
  )
  expect(paths.toSorted()).toEqual(numbers.map((n) => `/${n}`).toSorted())
})

test('1,000 lines come once each while others are appended (offset)', async () => {
  const { db } = server.api
  const deployment = await createDeployment(platform, { body: { applicationId: owner.applicationId } })
  const append = (from: number, count: number) =>
    db.insert(buildLogs).values(
      Array.from({ length: count }, (_, n) => ({
        id: idOf(from + n),
        deploymentId: deployment.id,
        message: `line ${from + n}`,
        type: 'INFO' as const,
        createdAt: new Date(1_700_000_000_000 + from + n),
      })),
    )
  await append(0, COUNT)
  const messages = await walk(
    all(listBuildLogs, platform, { id: deployment.id, limit: 300 }),
    ({ message }) => message,
    (walked) => (walked.length === 500 ? append(COUNT, 7) : Promise.resolve()),
  )
  expect(messages).toEqual(Array.from({ length: COUNT + 7 }, (_, n) => `line ${n}`))
})

test('a whole list is walked by one request, and what is no list is refused', async () => {
  const slugs = await walk(
    all(listEnvironments, platform, { id: owner.applicationId }),
    ({ slug }) => slug,
    async () => {},
  )
  expect(slugs.toSorted()).toEqual(['preview', 'production'])
  const noList = getOrganization as unknown as Operation<object, { items: unknown[] }>
  await expect(pagesOf(noList, platform).next()).rejects.toThrow('answers no list')
})

test('a page has its total, and a cursor that is refused in the middle is an error', async () => {
  const pages = pagesOf(listRequests, platform, { id: owner.applicationId, limit: 10 })
  const { value } = await pages.next()
  expect(value).toMatchObject({ items: { length: 10 }, total: expect.any(Number) as number })
  const broken = pagesOf(listRequests, platform, { id: owner.applicationId, cursor: 'broken' })
  await expect(broken.next()).rejects.toMatchObject({ status: 400 })
})

test('while an application has as many streams as it may, its activity is followed by its list', async () => {
  const { id } = await createApplication(platform, { body: { name: 'Busy', organizationId: owner.organizationId } })
  for (const key of ['FIRST', 'SECOND']) await createApplicationVariable(platform, { id, body: { key, value: 'x' } })
  const leaving = new AbortController()
  const headers = { authorization: `Bearer ${owner.token}` }
  const opened = await Promise.all(
    Array.from({ length: 20 }, () =>
      fetch(`${server.apiUrl}/applications/${id}/activity/stream`, { headers, signal: leaving.signal }),
    ),
  )
  expect(opened.every(({ ok }) => ok)).toBe(true)
  const states: string[] = []
  const seen: unknown[] = []
  const options = { lastEventId: '1', signal: leaving.signal, onState: (state: string) => states.push(state) }
  for await (const happened of follow(streamActivity, platform, { id }, options)) {
    seen.push(happened)
    break
  }
  leaving.abort()
  const { items } = await listActivity(platform, { id })
  const [second] = items
  expect(items.map(({ subject }) => subject['key'])).toEqual(['SECOND', 'FIRST'])
  expect([states, seen]).toEqual([['polling'], [{ event: 'variable.created', id: '2', data: second }]])
})
