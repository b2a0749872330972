import { newId } from '@platform/runtime/new-id'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { cronOf, cronsOf, deployCrons, runsOf, type ShownRun } from '../../../../test/crons.ts'
import { deploy, giveHostname, visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { CRON_RUNS_PATH, SIGNATURE_HEADER } from '../delivery/edge-messages.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { edges } from '../../cluster/edges/table.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'
import { runtimeLogs } from '../../observe/runtime-logs/table.ts'
import { createManualRun, sweepCronRuns } from './runs.ts'

/** Never due while a test runs. */
const SCHEDULE = '0 0 29 2 *'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
})
afterAll(() => platform.close())

/** Deploys a Function at /job with a cron that calls it, and additional routes. */
async function deployJob(
  owner: Owner,
  body: string,
  schedule = SCHEDULE,
  path = '/job',
): Promise<{ id: string; label: string }> {
  const archive = buildOutput({ job: handler(body) }, { crons: [{ path, schedule }] })
  const { id, status, label } = await untilEnded(platform, (await newDeployment(platform, owner, { archive })).id)
  if (status !== 'ACTIVE') throw new Error(await logOf(platform, id))
  return { id, label }
}

async function runNow(owner: Owner, id: string): Promise<ShownRun> {
  const { id: cronId } = await cronOf(platform, owner, id)
  const answer = await platform.call(owner.token, `POST /deployments/${id}/crons/${cronId}/run`)
  expect(answer.status).toBe(200)
  return answer.body as ShownRun
}

async function printed(deploymentId: string): Promise<string[]> {
  await platform.api.runtimeLog.flush()
  const lines = await platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, deploymentId))
  return lines.map(({ message }) => message)
}

describe('the request of a cron', () => {
  const print = `console.log(JSON.stringify([req.method, req.url, req.headers.host, req.headers['user-agent'], req.headers.authorization ?? null])); res.end()`

  test('is a GET at the hostname of production, by the name of a cron and with its secret', async () => {
    const ana = await newOwner(platform)
    const variables = `POST /applications/${ana.applicationId}/env-vars`
    const secret = { key: 'CRON_SECRET', value: 'of-my-crons', environment: 'production' }
    expect((await platform.call(ana.token, variables, secret)).status).toBe(201)
    const host = await giveHostname(platform, ana.applicationId)
    const { id } = await deployJob(ana, print, SCHEDULE, '/job?full=1')
    expect(await logOf(platform, id)).toContain('1 Function, 0 routes, 1 cron')
    const run = await runNow(ana, id)
    expect(run).toMatchObject({ trigger: 'manual', status: 200, outcome: 'succeeded', error: null })
    expect(await printed(id)).toEqual([
      JSON.stringify(['GET', '/job?full=1', host, 'vercel-cron/1.0', 'Bearer of-my-crons']),
    ])
    await platform.api.requestLog.flush()
    const logged = await platform.api.db.select().from(requestLogs).where(eq(requestLogs.deploymentId, id))
    expect(logged).toMatchObject([{ method: 'GET', path: '/job', status: 200, hostname: host }])
  })

  test('is made at the own hostname of a deployment that is not current, and without a secret if there is none', async () => {
    const ana = await newOwner(platform)
    await giveHostname(platform, ana.applicationId)
    const { id, label } = await deployJob(ana, print)
    await deploy(platform, ana, {})
    expect(await runNow(ana, id)).toMatchObject({ outcome: 'succeeded' })
    const host = `${label}.${platform.api.appsUrl.host}`
    expect(await printed(id)).toEqual([JSON.stringify(['GET', '/job', host, 'vercel-cron/1.0', null])])
  })

  test('is not made with a secret that no header may hold', async () => {
    const ana = await newOwner(platform)
    const variables = `POST /applications/${ana.applicationId}/env-vars`
    const secret = { key: 'CRON_SECRET', value: 'two\nlines', environment: 'production' }
    expect((await platform.call(ana.token, variables, secret)).status).toBe(201)
    const { id } = await deployJob(ana, print)
    expect(await runNow(ana, id)).toMatchObject({
      outcome: 'failed',
      status: null,
      error: 'CRON_SECRET holds what no header may hold',
    })
    expect(await printed(id)).toEqual([])
  })

  test.each([
    ['a redirect is not followed', `res.writeHead(307, { location: '/elsewhere' }).end()`, 307, 'succeeded', null],
    ['a failure is not repeated', `res.writeHead(500).end('no')`, 500, 'failed', 'The deployment answered 500'],
    ['a Function that ends is 502', `process.exit(1)`, 502, 'failed', 'The deployment answered 502'],
  ])('%s', async (_, body, status, outcome, error) => {
    const ana = await newOwner(platform)
    const { id } = await deployJob(ana, `console.log('asked'); ${body}`)
    expect(await runNow(ana, id)).toMatchObject({ status, outcome, error })
    expect((await printed(id)).filter((line) => line === 'asked')).toHaveLength(1)
    expect((await runsOf(platform, ana, id)).total).toBe(1)
  })

  test('an answer that breaks off has failed', async () => {
    const ana = await newOwner(platform)
    const { id } = await deployJob(ana, `res.write('begun'); setTimeout(() => process.exit(1), 50)`)
    expect(await runNow(ana, id)).toMatchObject({ status: 200, outcome: 'failed', error: 'The answer broke off' })
  })

  test('is answered by no cache, and its answer is kept for nobody', async () => {
    const ana = await newOwner(platform)
    const { id, label } = await deployJob(
      ana,
      `globalThis.n = (globalThis.n ?? 0) + 1; res.setHeader('cache-control', 's-maxage=600'); res.end(String(globalThis.n))`,
    )
    const ask = async () => (await visit(platform, `${label}.${platform.api.appsUrl.host}`, '/job')).text
    await runNow(ana, id)
    expect([await ask(), await ask()]).toEqual(['2', '2'])
    await runNow(ana, id)
    expect(await ask()).toBe('2')
    expect((await runsOf(platform, ana, id)).items.map(({ outcome }) => outcome)).toEqual(['succeeded', 'succeeded'])
  })

  test('is answered by no page that is kept', async () => {
    const ana = await newOwner(platform)
    const archive = [
      ...buildOutput(
        { job: handler(`console.log('asked'); res.end('page')`) },
        { crons: [{ path: '/job', schedule: SCHEDULE }] },
      ),
      { name: '.vercel/output/functions/job.prerender-config.json', content: '{"expiration":600}' },
    ]
    const { id, label } = await untilEnded(platform, (await newDeployment(platform, ana, { archive })).id)
    const ask = async () => (await visit(platform, `${label}.${platform.api.appsUrl.host}`, '/job')).headers['x-cache']
    expect([await ask(), await ask()]).toEqual(['MISS', 'HIT'])
    await runNow(ana, id)
    expect(await printed(id)).toEqual(['asked', 'asked'])
  })

  test('answers as it is after 25 seconds, and goes on', async () => {
    const ana = await newOwner(platform)
    const { id } = await deployJob(ana, `setTimeout(() => res.end(), 1_500)`)
    const soon = vi.spyOn(AbortSignal, 'timeout').mockImplementationOnce(() => AbortSignal.abort())
    onTestFinished(() => soon.mockRestore())
    const run = await runNow(ana, id)
    expect(soon).toHaveBeenCalledWith(25_000)
    expect(run).toMatchObject({ completedAt: null, outcome: null, status: null })
    await expect
      .poll(async () => (await runsOf(platform, ana, id)).items)
      .toMatchObject([{ id: run.id, outcome: 'succeeded', status: 200 }])
    const [ended] = (await runsOf(platform, ana, id)).items
    expect(ended?.durationMs).toBeGreaterThanOrEqual(1_400)
  })
})

describe('the crons of a deployment', () => {
  const crons = [
    { path: '/b', schedule: '0 5 * * *' },
    { path: '/a', schedule: '*/5 * * * *' },
  ]

  test('are listed in their order, with their next and last runs', async () => {
    const ana = await newOwner(platform)
    const { id } = await deploy(platform, ana, { files: { a: 'a', b: 'b' }, output: { crons } })
    const before = await cronsOf(platform, ana, id)
    expect(before).toMatchObject({ total: 2, items: crons.map((cron) => ({ ...cron, isActive: true, lastRun: null })) })
    for (const { nextRunAt } of before.items)
      expect(new Date(nextRunAt ?? 0).getTime()).toBeGreaterThan(platform.clock.now().getTime())
    expect(new Date(before.items[0]?.nextRunAt ?? 0).toISOString()).toMatch(/T05:00:00\.000Z$/)
    const path = `POST /deployments/${id}/crons/${before.items[1]?.id}/run`
    const run = (await platform.call(ana.token, path)).body as ShownRun
    const after = await cronsOf(platform, ana, id)
    expect(after.items.map(({ lastRun }) => lastRun)).toEqual([null, run])
  })

  test('have the same ids for ever, and others in another deployment', async () => {
    const ana = await newOwner(platform)
    const one = await deploy(platform, ana, { output: { crons } })
    const two = await deploy(platform, ana, { output: { crons } })
    const idsOf = async ({ id }: { id: string }) => (await cronsOf(platform, ana, id)).items.map((cron) => cron.id)
    expect(await idsOf(one)).toEqual(await idsOf(one))
    expect(new Set([...(await idsOf(one)), ...(await idsOf(two))]).size).toBe(4)
  })

  test('are none where the output has none', async () => {
    const ana = await newOwner(platform)
    const { id } = await deploy(platform, ana, {})
    expect(await cronsOf(platform, ana, id)).toEqual({ items: [], total: 0 })
  })

  test('have pages of runs, newest first', async () => {
    const ana = await newOwner(platform)
    const { id } = await deploy(platform, ana, {
      files: { a: 'a' },
      output: { crons: [{ path: '/a', schedule: SCHEDULE }] },
    })
    const ids = []
    for (let n = 0; n < 3; n++) ids.unshift((await runNow(ana, id)).id)
    const first = await runsOf(platform, ana, id, '?limit=2')
    expect([first.total, first.items.map((run) => run.id)]).toEqual([3, ids.slice(0, 2)])
    const rest = await runsOf(platform, ana, id, `?limit=2&from=${ids[1]}`)
    expect([rest.total, rest.items.map((run) => run.id)]).toEqual([3, ids.slice(2)])
  })

  test('are not found in another deployment', async () => {
    const ana = await newOwner(platform)
    const one = await deploy(platform, ana, { output: { crons: crons.slice(1) } })
    const two = await deploy(platform, ana, { output: { crons } })
    const { id: cronId } = await cronOf(platform, ana, one.id)
    for (const on of [
      `GET /deployments/${two.id}/crons/${cronId}/runs`,
      `POST /deployments/${two.id}/crons/${cronId}/run`,
    ])
      expect(await platform.call(ana.token, on)).toMatchObject({ status: 404, body: { error: 'Cron not found' } })
  })

  test.each([
    ['failed', 'FAILED', null, 'The deployment is FAILED'],
    ['was retired', 'ACTIVE', new Date(), 'The deployment was retired'],
  ] as const)('do not run where the deployment %s', async (_, status, retiredAt, error) => {
    const ana = await newOwner(platform)
    const { id } = await deploy(platform, ana, { status, isCurrent: false, output: { crons: crons.slice(1) } })
    await platform.api.db.update(deployments).set({ retiredAt }).where(eq(deployments.id, id))
    const { id: cronId } = await cronOf(platform, ana, id)
    const answer = await platform.call(ana.token, `POST /deployments/${id}/crons/${cronId}/run`)
    expect(answer).toMatchObject({ status: 409, body: { error: expect.stringContaining(error) as string } })
    expect((await runsOf(platform, ana, id)).total).toBe(0)
  })

  test('are read with one scope and run with another', async () => {
    const ana = await newOwner(platform)
    const { id } = await deploy(platform, ana, { output: { crons: crons.slice(1) } })
    const { id: cronId } = await cronOf(platform, ana, id)
    const on = `POST /deployments/${id}/crons/${cronId}/run`
    const reader = await ana.person.token(everyScope.filter((scope) => scope !== 'network:deployments:trigger'))
    expect((await platform.call(reader, on)).status).toBe(403)
    expect((await platform.call(null, on)).status).toBe(401)
  })
})

describe('an edge', () => {
  let url: string
  beforeAll(async () => {
    const { membership, db } = platform.api
    const [row] = await db.select().from(edges).where(eq(edges.id, membership.id))
    url = (row?.internalUrl ?? '') + CRON_RUNS_PATH
  })
  const send = (message: object, signature?: string) => {
    const body = JSON.stringify(message)
    return fetch(url, {
      method: 'POST',
      body,
      headers: { [SIGNATURE_HEADER]: signature ?? platform.api.edgeSigner.sign(body) },
    })
  }
  const messageOf = (runId: string, change: object = {}) => ({
    edgeId: platform.api.membership.id,
    sentAt: platform.clock.now().getTime(),
    runId,
    ...change,
  })

  test('makes a run once, however often and by whomever it is asked', async () => {
    const ana = await newOwner(platform)
    const { id } = await deployJob(ana, `console.log('asked'); res.end()`)
    const { id: cronId } = await cronOf(platform, ana, id)
    const runId = await createManualRun(platform.api, cronId)
    const refused = [
      await send(messageOf(runId), 'a.b'),
      await send(messageOf(runId, { sentAt: platform.clock.now().getTime() - 61_000 })),
      await send(messageOf(runId, { edgeId: newId() })),
    ]
    expect(refused.map(({ status }) => status)).toEqual([401, 401, 421])
    const message = messageOf(runId)
    const answers = await Promise.all([send(message), send(message), send(message)])
    await Promise.all(answers.map((answer) => answer.text()))
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 421)).toHaveLength(2)
    expect((await send(message)).status).toBe(421)
    expect(await printed(id)).toEqual(['asked'])
  })

  test('does not make a run that has ended while it waited', async () => {
    const ana = await newOwner(platform)
    const { id } = await deployCrons(platform, ana, [{ path: '/job', schedule: SCHEDULE }])
    const runId = await createManualRun(platform.api, (await cronOf(platform, ana, id)).id)
    platform.clock.advance(61_000)
    await sweepCronRuns(platform.api)
    expect((await send(messageOf(runId))).status).toBe(421)
    expect((await runsOf(platform, ana, id)).items).toMatchObject([
      { id: runId, startedAt: null, error: 'No edge took it up in time' },
    ])
  })

  test('goes on with a run whose worker is gone', async () => {
    const ana = await newOwner(platform)
    const { id } = await deployJob(ana, `setTimeout(() => res.end(), 300)`)
    const { id: cronId } = await cronOf(platform, ana, id)
    const runId = await createManualRun(platform.api, cronId)
    await platform.api.crons.dispatch(runId, AbortSignal.abort())
    await expect
      .poll(async () => (await runsOf(platform, ana, id)).items)
      .toMatchObject([{ id: runId, outcome: 'succeeded' }])
  })

  test('that stops ends the runs that it cannot wait for', async () => {
    const other = await startPlatform({ hasWorker: true })
    onTestFinished(() => other.close())
    const ana = await newOwner(other)
    const archive = buildOutput(
      { job: handler(`console.log('begun'); setTimeout(() => res.end(), 60_000)`) },
      { crons: [{ path: '/job', schedule: SCHEDULE }] },
    )
    const { id } = await untilEnded(other, (await newDeployment(other, ana, { archive })).id)
    const second = await other.addEdge()
    await other.api.membership.leave()
    const { id: cronId } = await cronOf(other, ana, id)
    const runId = await createManualRun(other.api, cronId)
    await other.api.crons.dispatch(runId, AbortSignal.abort())
    const begun = async () => {
      await second.api.runtimeLog.flush()
      return other.api.db.$count(runtimeLogs, eq(runtimeLogs.deploymentId, id))
    }
    await expect.poll(begun).toBe(1)
    await second.stop()
    expect((await runsOf(other, ana, id)).items).toMatchObject([
      { outcome: 'failed', error: 'The edge that made the request was stopped' },
    ])
  })
})

test('crons run by the clock, with the worker that is there', async () => {
  const ana = await newOwner(platform)
  const { id } = await deployJob(ana, `res.end()`, '* * * * *')
  platform.clock.advance(60_000)
  await expect
    .poll(async () => (await runsOf(platform, ana, id)).items)
    .toMatchObject([{ trigger: 'schedule', outcome: 'succeeded', status: 200 }])
})
