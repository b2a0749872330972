// engines: postgres
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { verdictKey } from '@platform/build-output/pattern-verdict'
import { openText } from '@platform/runtime/sealed-text'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import postgres, { type TransactionSql } from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { deploymentOf, environmentOf, logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput } from '../../../../test/functions.ts'
import { hostileArchives } from '../../../../test/hostile-archives.ts'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { LINK, type ZipEntry } from '../../../../test/zip.ts'
import { openBlobs } from '../../storage/drivers/open-blobs.ts'
import { activities } from '../../tenancy/activity/table.ts'
import { artifactEncodings, artifacts, deploymentFiles } from '../artifacts/table.ts'
import { deployments } from '../deployments/table.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { verifyStorage } from '../../storage/objects/maintenance/verify-storage.ts'
import { blobs, uploads } from '../../storage/objects/table.ts'
import { startBuildWorker } from './build-worker.ts'
import { claimDeployment } from './claim.ts'
import { runDeployment } from './run-deployment.ts'
import type { RunDeps } from './run.ts'
import { sweepDeployments } from './sweep-deployments.ts'
import { patternVerdicts } from './table.ts'
import { removeStaleFolders } from './work-folder.ts'

let platform: TestPlatform
let ana: Owner
/** Where this file's workers unpack archives. */
let temporary: string
beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'builds-test-'))
  vi.stubEnv('TMPDIR', temporary)
  platform = await startPlatform({ hasWorker: true })
  ana = await newOwner(platform)
  await setQuota(platform.api, ana.organizationId, 'concurrent_builds', 20)
})
afterAll(async () => {
  await platform.close()
  vi.unstubAllEnvs()
  await rm(temporary, { recursive: true, force: true })
})

const never = new AbortController().signal
const site = (n: number, of = unique()): ZipEntry[] => [
  { name: 'index.html', content: `<h1>${of}</h1>` },
  ...Array.from({ length: n - 1 }, (_, i) => ({ name: `assets/${i}.js`, content: `console.log('${of}', ${i})` })),
]
async function deploy(archive: readonly ZipEntry[] | Buffer, more: Partial<Parameters<typeof newDeployment>[2]> = {}) {
  const { id } = await newDeployment(platform, ana, { archive, ...more })
  return untilEnded(platform, id)
}

describe('an archive', () => {
  test('becomes what its environment serves, and the log says what was found', async () => {
    const active = await deploy(site(100), { partBytes: 3_000 })
    const { id } = active
    expect(await logOf(platform, id)).toMatch(
      /^INFO Unpacked 100 files .*\nINFO Found plain files: 100 assets\nINFO A single-page application: .*\nINFO Stored 100 new files .*\nINFO Ready in .* s$/,
    )
    expect(active).toMatchObject({ status: 'ACTIVE', attempt: 1, interruptions: 0, leaseUntil: null, deadlineAt: null })
    expect(await environmentOf(platform, ana)).toMatchObject({ currentDeploymentId: id, currentSeq: active.seq })
    const files = await platform.api.db.select().from(deploymentFiles).where(eq(deploymentFiles.deploymentId, id))
    expect(files).toHaveLength(100)
    expect(active.sizeBytes).toBe(files.reduce((sum, { bytes }) => sum + bytes, 0))
    expect(active.archiveBytes).toBeGreaterThan(3_000)
    expect(active.output).toMatchObject({ kind: 'static' })
    const [activity] = await platform.api.db
      .select()
      .from(activities)
      .where(and(eq(activities.applicationId, ana.applicationId), eq(activities.type, 'deployment.active')))
    expect(activity).toMatchObject({ actor: { type: 'platform', id: 'platform' }, subject: { id, isCurrent: true } })
  })

  test('is taken up because its job is announced, without waiting for the next look at the queue', async () => {
    const idle = await startPlatform()
    onTestFinished(() => idle.close())
    const worker = startBuildWorker(idle.api, 3_600_000)
    onTestFinished(() => worker.stop())
    const bob = await newOwner(idle)
    // The first may be found when the worker begins to listen; the second comes to a worker that waits.
    for (let n = 0; n < 2; n++) {
      const { id } = await newDeployment(idle, bob, { archive: site(100) })
      expect((await untilEnded(idle, id)).status).toBe('ACTIVE')
    }
  })

  test('an archive of 5,000 files that were deployed before stores nothing', async () => {
    const archive = [...site(5_000), { name: 'large.bin', content: randomBytes(100_000) }, { name: 'empty.txt' }]
    const count = async () => [await platform.api.db.$count(artifacts), await platform.api.db.$count(blobs)]
    expect((await deploy(archive)).status).toBe('ACTIVE')
    await sweepDeployments(platform.api) // drops the parts of the archive
    const [before] = await count()
    const again = await deploy(archive)
    expect(again.status).toBe('ACTIVE')
    expect(await logOf(platform, again.id)).toContain('INFO Stored 0 new files (0 B)')
    expect((await count())[0]).toBe(before)
    expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, again.id))).toBe(5_002)
  })

  test('without a job is found by the sweep', async () => {
    const { id } = await newDeployment(platform, ana, { archive: site(1), status: 'STARTING' })
    await platform.api.db
      .update(deployments)
      .set({ status: 'QUEUED', updatedAt: new Date(platform.api.now().getTime() - 11_000) })
      .where(eq(deployments.id, id))
    await sweepDeployments(platform.api)
    expect((await untilEnded(platform, id)).status).toBe('ACTIVE')
  })

  test('is compressed once it is served, for the clients that take it so', async () => {
    const { id } = await deploy([{ name: 'index.html', content: `<p>${unique()}</p>`.repeat(100) }])
    const encodings = () =>
      platform.api.db
        .select({ encoding: artifactEncodings.encoding, bytes: artifactEncodings.bytes })
        .from(deploymentFiles)
        .innerJoin(artifactEncodings, eq(artifactEncodings.sha256, deploymentFiles.sha256))
        .where(eq(deploymentFiles.deploymentId, id))
        .orderBy(asc(artifactEncodings.encoding))
    await expect.poll(encodings).toEqual([
      { encoding: 'br', bytes: expect.any(Number) as number },
      { encoding: 'gzip', bytes: expect.any(Number) as number },
    ])
    await expect.poll(async () => (await deploymentOf(platform, id)).filesCompressedAt).toBeInstanceOf(Date)
  })

  test('is dropped in its parts once its deployment has ended', async () => {
    const { id, uploadId } = await deploy(site(1))
    await sweepDeployments(platform.api)
    // Its id stays, so that repeated upload steps get the same answers.
    expect((await deploymentOf(platform, id)).uploadId).toBe(uploadId)
    expect(await platform.api.db.$count(uploads, eq(uploads.id, uploadId ?? ''))).toBe(0)
  })
})

describe('what its author did wrong fails a deployment with a sentence', () => {
  test.each(Object.entries(hostileArchives))('%s', async (_, { archive, sentence }) => {
    const failed = await deploy(archive())
    expect(failed).toMatchObject({ status: 'FAILED', attempt: 1, leaseUntil: null })
    expect(failed.failureReason).toMatch(sentence)
    expect(await logOf(platform, failed.id)).toBe(`ERROR ${failed.failureReason}`)
    expect(failed.buildEndedAt).not.toBeNull()
  })

  test('and leaves nothing behind: no folder, no file, no blob that waits', async () => {
    expect((await readdir(temporary)).filter((name) => name.startsWith('platform-build-'))).toEqual([])
    expect(await platform.api.db.$count(blobs, eq(blobs.state, 'pending'))).toBe(0)
    const failed = await platform.api.db
      .select({ id: deployments.id })
      .from(deployments)
      .where(eq(deployments.status, 'FAILED'))
    expect(failed.length).toBeGreaterThanOrEqual(Object.keys(hostileArchives).length)
    const ids = failed.map(({ id }) => id)
    expect(await platform.api.db.$count(deploymentFiles, inArray(deploymentFiles.deploymentId, ids))).toBe(0)
  })

  test('a manifest whose mistake no database holds, and no line is long enough for', async () => {
    const config = JSON.stringify({ version: 3, overrides: { [`\0${'x'.repeat(10_000)}`]: { path: 1 } } })
    const failed = await deploy([{ name: '.vercel/output/config.json', content: config }])
    expect(failed).toMatchObject({ status: 'FAILED', attempt: 1 })
    expect(failed.failureReason).toMatch(/overrides\.\ufffdx+ … \(cut\)$/)
    expect(await logOf(platform, failed.id)).toContain(`ERROR ${failed.failureReason}`)
  })

  test('a root directory that is not there', async () => {
    const failed = await deploy(site(2), { rootDirectory: 'apps/shop' })
    expect(failed.failureReason).toBe('The root directory "apps/shop" is not in the archive')
    expect(
      (await deploy([{ name: 'apps/shop/index.html', content: 'x' }], { rootDirectory: './apps/shop/' })).status,
    ).toBe('ACTIVE')
  })

  test('no upload', async () => {
    const { id } = await newDeployment(platform, ana, {})
    expect((await untilEnded(platform, id)).failureReason).toBe('Nothing was uploaded')
  })
})

describe('verdicts on patterns', () => {
  const DAY_MS = 86_400_000
  const newPattern = () => `^/${unique()}(?:ab|cd)*$`
  const keyOf = (source: string, analyser?: string) =>
    verdictKey({ source: new RegExp(source).source, flags: 'i', ...(analyser !== undefined && { analyser }) })
  const deployRoute = (src: string) => deploy(buildOutput({}, { files: { x: 'x' }, routes: [{ src, dest: '/x' }] }))
  const verdictsOf = (source: string) =>
    platform.api.db
      .select()
      .from(patternVerdicts)
      .where(eq(patternVerdicts.key, keyOf(source)))
  const plant = (key: Buffer, usedAt = platform.api.now()) =>
    platform.api.db
      .insert(patternVerdicts)
      .values({ key, verdict: { kind: 'slow', complexity: 'planted' }, steps: 1, usedAt })

  test('the verdict on a pattern is kept by the first deployment that has the pattern, also where the analysis came to none', async () => {
    const source = newPattern()
    expect((await deployRoute(source)).status).toBe('ACTIVE')
    const kept = await verdictsOf(source)
    expect(kept).toMatchObject([{ verdict: { kind: 'safe' }, steps: expect.any(Number) as number }])
    expect((await deployRoute(source)).status).toBe('ACTIVE')
    expect(await verdictsOf(source)).toEqual(kept)
    const nested = `^/${unique()}${'('.repeat(1_000)}a${')?'.repeat(1_000)}$`
    expect((await deployRoute(nested)).failureReason).toContain('(it nests too deeply for its check): simplify it.')
    expect(await verdictsOf(nested)).toMatchObject([{ verdict: { kind: 'unknown' } }])
  })

  test('the verdict on a pattern decides the next deployment without an analysis, and is then as if it were new', async () => {
    const source = newPattern()
    await plant(keyOf(source), new Date(platform.api.now().getTime() - 89 * DAY_MS))
    expect(await deployRoute(source)).toMatchObject({
      status: 'FAILED',
      failureReason: `.vercel/output/config.json: routes[0], "${source}", takes too long to match some paths (planted): simplify it.`,
    })
    const [row] = await verdictsOf(source)
    expect(platform.api.now().getTime() - Number(row?.usedAt)).toBeLessThan(DAY_MS)
  })

  test('the verdict on a pattern decides nothing if another version of the analyser found it', async () => {
    const source = newPattern()
    await plant(keyOf(source, 'recheck 4.4.0, revision 1'))
    expect((await deployRoute(source)).status).toBe('ACTIVE')
  })

  test('the verdict on a pattern is found by an analysis where it can be neither looked up nor kept', async () => {
    await platform.api.db.execute(sql`alter table pattern_verdicts rename to away`)
    try {
      expect((await deployRoute(newPattern())).status).toBe('ACTIVE')
      expect((await deployRoute(`^/${unique()}(a+)+$`)).failureReason).toContain('takes too long to match some paths')
    } finally {
      await platform.api.db.execute(sql`alter table away rename to pattern_verdicts`)
    }
  })
})

test('links that lead nowhere are left out with a warning in the log', async () => {
  const { id, status } = await deploy([...site(1), { name: 'evil', content: '/etc/passwd', mode: LINK }])
  expect(status).toBe('ACTIVE')
  expect(await logOf(platform, id)).toContain('WARN The link "evil" leads out of the archive and was left out')
})

test('an older deployment that ends late is served at its own hostname alone', async () => {
  const older = await newDeployment(platform, ana, { archive: site(1), status: 'PENDING' })
  const newer = await deploy(site(1))
  await platform.api.db.transaction(async (tx) => {
    await tx.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, older.id))
    await platform.api.builds.enqueue(tx, older.id)
  })
  expect((await untilEnded(platform, older.id)).status).toBe('ACTIVE')
  expect((await environmentOf(platform, ana)).currentDeploymentId).toBe(newer.id)
})

test('variables are sealed with a deployment as they are; its log and its failure do not show sensitive ones (D97)', async () => {
  const secret = `secret-${unique()}`
  const on = `POST /applications/${ana.applicationId}/env-vars`
  const made = await Promise.all(
    [
      { key: 'TOKEN', value: secret, sensitive: true },
      { key: 'SHOWN', value: 'plain-value', sensitive: false },
    ].map((body) => platform.call(ana.token, on, body)),
  )
  expect(made.map(({ status }) => status)).toEqual([201, 201])
  const link = { name: `a-${secret}-b`, content: 'nowhere', mode: LINK }
  const first = await deploy([...site(1), link])
  expect(first.variables).toEqual([
    { key: 'SHOWN', source: 'application', sensitive: false, digest: expect.stringMatching(/^[\w-]{16}$/) },
    { key: 'TOKEN', source: 'application', sensitive: true, digest: expect.stringMatching(/^[\w-]{16}$/) },
  ])
  const context = `variables of deployment ${first.id}`
  const sealed = openText(platform.api.sealer, first.sealedVariables ?? '', context, 'plain')
  expect(JSON.parse(sealed)).toEqual({
    SHOWN: 'plain-value',
    TOKEN: secret,
    PLATFORM_CLIENT_ID: expect.any(String),
    PLATFORM_CLIENT_SECRET: expect.stringMatching(/^svc_secret_[\w-]{43}$/),
  })
  const log = await logOf(platform, first.id)
  expect(log).toContain('WARN The link "a-[redacted]-b" leads to nothing')
  expect(log).not.toContain(secret)
  const failed = await deploy(site(1), { rootDirectory: `apps/${secret}` })
  expect(failed.failureReason).toBe('The root directory "apps/[redacted]" is not in the archive')
  expect(await logOf(platform, failed.id)).toContain('ERROR The root directory "apps/[redacted]" is not')
  const second = await deploy(site(1))
  expect(second.variables).toEqual(first.variables)
  const [variable] = (await platform.call(ana.token, `GET /applications/${ana.applicationId}/env-vars`)).body.items
  const changed = await platform.call(ana.token, `PATCH /applications/${ana.applicationId}/env-vars/${variable.id}`, {
    value: 'another-value',
  })
  expect(changed.status).toBe(200)
  const third = await deploy(site(1))
  expect(third.variables?.map(({ key }) => key)).toEqual(['SHOWN', 'TOKEN'])
  expect(third.variables?.filter(({ digest }, n) => digest !== first.variables?.[n]?.digest)).toHaveLength(1)
})

describe('workers', () => {
  /** Works on a deployment. While its worker waits to look up stored files, `change` modifies its row. */
  async function runWhile(change: (sql: TransactionSql, id: string) => Promise<unknown>, deps: RunDeps = platform.api) {
    const { id } = await newDeployment(platform, ana, { archive: site(3), status: 'PENDING' })
    await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, id))
    const changer = postgres(platform.databaseUrl, { max: 1, onnotice: () => {} })
    let changing: Promise<unknown> = Promise.resolve()
    await holding(platform.databaseUrl, (sql) => sql`lock table artifacts in access exclusive mode`, [
      () => runDeployment(deps, id, never),
      // Makes its change, then waits for the lock that the worker waits for.
      async () => {
        changing = changer.begin((sql) => change(sql, id))
        await changing
        await changer`select 1 from artifacts limit 1`
      },
    ])
    await changer.end()
    return deploymentOf(platform, id)
  }

  test('one that was taken over stops, and writes nothing more', async () => {
    const left = await runWhile((sql, id) => sql`update deployments set attempt = attempt + 1 where id = ${id}`)
    expect(left).toMatchObject({ status: 'BUILDING', attempt: 2, output: null, sizeBytes: null })
    expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, left.id))).toBe(0)
    expect(await logOf(platform, left.id)).not.toContain('Stored')
    expect((await readdir(temporary)).filter((name) => name.startsWith('platform-build-'))).toEqual([])
  })

  test('one whose deployment is cancelled stops, and the deployment stays cancelled', async () => {
    const cancelled = await runWhile(
      (sql, id) => sql`update deployments set status = 'FAILED', failure_reason = 'Cancelled' where id = ${id}`,
    )
    expect(cancelled).toMatchObject({ status: 'FAILED', failureReason: 'Cancelled', output: null })
    expect(await logOf(platform, cancelled.id)).not.toContain('Stored')
  })

  test('one that stops ends a trial start and leaves the deployment to the next', async () => {
    const { id } = await newDeployment(platform, ana, {
      archive: buildOutput({
        index: `console.log('begun'); setInterval(() => {}, 1000); await new Promise(() => {})`,
      }),
      status: 'PENDING',
    })
    await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, id))
    const stop = new AbortController()
    // Nobody claims it again.
    const builds = { ...platform.api.builds, enqueue: () => Promise.resolve() }
    const ended = runDeployment({ ...platform.api, builds }, id, stop.signal)
    await vi.waitFor(async () => expect(await logOf(platform, id)).toContain('index: begun'), {
      timeout: 60_000,
      interval: 20,
    })
    stop.abort()
    await ended
    const left = await deploymentOf(platform, id)
    expect([left.status, left.failureReason, left.leaseUntil]).toEqual(['PROVISIONING', null, null])
    await platform.api.db.update(deployments).set({ status: 'FAILED' }).where(eq(deployments.id, id))
  })

  describe('every ten seconds', () => {
    /** A clock of the worker's own, and its heartbeats by hand. */
    async function runBeating(laterMs: number) {
      const leases: (number | undefined)[] = []
      let offset = 0
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      onTestFinished(() => void vi.useRealTimers())
      const ended = await runWhile(
        async (_, id) => {
          const leaseUntil = async () => (await deploymentOf(platform, id)).leaseUntil?.getTime()
          leases.push(await leaseUntil())
          offset = laterMs
          vi.advanceTimersByTime(10_000)
          for (
            const deadline = Date.now() + 60_000;
            Date.now() < deadline && leases.at(-1) === leases[0];
            await sleep(5)
          )
            leases.push(await leaseUntil())
        },
        { ...platform.api, now: () => new Date(platform.api.now().getTime() + offset) },
      )
      return { ended, renewedBy: (leases.at(-1) ?? 0) - (leases[0] ?? 0) }
    }

    test('renew their lease', async () => {
      const { ended, renewedBy } = await runBeating(15_000)
      expect(ended.status).toBe('ACTIVE')
      expect(renewedBy).toBeGreaterThanOrEqual(15_000)
    })

    test('look whether the state they are in takes too long', async () => {
      const { ended } = await runBeating(600_000)
      expect(ended).toMatchObject({ status: 'FAILED', failureReason: 'BUILDING took longer than 10 minutes' })
    })
  })

  test('one whose object store is away leaves the deployment to the next, which succeeds', async () => {
    const archive = [...site(1), { name: 'large.bin', content: randomBytes(50_000) }]
    const { id } = await newDeployment(platform, ana, { archive, status: 'PENDING' })
    await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, id))
    const away = await openBlobs('s3://key:secret@bucket?endpoint=http://127.0.0.1:1')
    const blobs = { ...platform.api.blobs, write: away.write }
    await runDeployment({ ...platform.api, blobs }, id, never)
    away.close()
    const left = await deploymentOf(platform, id)
    expect(left).toMatchObject({ status: 'BUILDING', attempt: 1, failureReason: null })
    await platform.api.db
      .update(deployments)
      .set({ leaseUntil: new Date(0) })
      .where(eq(deployments.id, id))
    await sweepDeployments(platform.api)
    expect(await untilEnded(platform, id)).toMatchObject({ status: 'ACTIVE', attempt: 2, interruptions: 1 })
  })

  test('two that store the same new content at the same time both succeed, and it is there once', async () => {
    const bob = await newOwner(platform)
    const archive = [...site(40), { name: 'large.bin', content: randomBytes(60_000) }]
    const [one, two] = await Promise.all(
      [ana, bob].map((owner) => newDeployment(platform, owner, { archive, status: 'PENDING' })),
    )
    if (!one || !two) throw new Error('Two deployments were expected')
    const run = async (id: string) => {
      await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, id))
      await runDeployment(platform.api, id, never)
      return deploymentOf(platform, id)
    }
    // The first to insert would not wait for anybody, so both are made to reach the insertion.
    const ended = await holding(platform.databaseUrl, (sql) => sql`lock table artifacts in share row exclusive mode`, [
      () => run(one.id),
      () => run(two.id),
    ])
    expect(ended.map(({ status }) => status)).toEqual(['ACTIVE', 'ACTIVE'])
    const files = await Promise.all(
      [one, two].map(({ id }) =>
        platform.api.db.select().from(deploymentFiles).where(eq(deploymentFiles.deploymentId, id)),
      ),
    )
    expect(files.map((each) => each.length)).toEqual([41, 41])
    const logs = await Promise.all([one, two].map(({ id }) => logOf(platform, id)))
    expect(logs.filter((log) => log.includes('Stored 41 new files'))).toHaveLength(1)
    expect(logs.filter((log) => log.includes('Stored 0 new files'))).toHaveLength(1)
    // The collector knows of the slower one's blobs and removes them.
    expect((await verifyStorage(platform.api)).unreferenced).toBe(0)
  })

  test('leave what is beyond the quota of an organization queued, and go on when one ends', async () => {
    const bob = await newOwner(platform)
    await setQuota(platform.api, bob.organizationId, 'concurrent_builds', 1)
    const busy = await newDeployment(platform, bob, { archive: site(1), status: 'BUILDING' })
    await platform.api.db
      .update(deployments)
      .set({ leaseUntil: new Date(platform.api.now().getTime() + 60_000) })
      .where(eq(deployments.id, busy.id))
    const waiting = await newDeployment(platform, bob, { archive: site(1), status: 'PENDING' })
    await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, waiting.id))
    await runDeployment(platform.api, waiting.id, never)
    expect(await deploymentOf(platform, waiting.id)).toMatchObject({ status: 'QUEUED', attempt: 0 })
    // Its worker gives it up: it is claimed again and ends, and the next one is enqueued.
    await platform.api.db.update(deployments).set({ leaseUntil: null }).where(eq(deployments.id, busy.id))
    await sweepDeployments(platform.api)
    expect((await untilEnded(platform, busy.id)).status).toBe('ACTIVE')
    expect((await untilEnded(platform, waiting.id)).status).toBe('ACTIVE')
  })

  test('leave a deployment alone that another holds', async () => {
    const { id } = await newDeployment(platform, ana, { status: 'BUILDING' })
    const leaseUntil = new Date(platform.api.now().getTime() + 5_000)
    await platform.api.db.update(deployments).set({ attempt: 1, leaseUntil }).where(eq(deployments.id, id))
    expect(await claimDeployment(platform.api, id)).toBeUndefined()
    expect(await deploymentOf(platform, id)).toMatchObject({ status: 'BUILDING', attempt: 1, leaseUntil })
    // Uses a clock of its own: with the shared one, this file's worker would claim it first.
    const later = { ...platform.api, now: () => new Date(leaseUntil.getTime() + 1) }
    expect(await claimDeployment(later, id)).toMatchObject({ status: 'STARTING', attempt: 2, interruptions: 1 })
  })

  test('claim a place of the quota one at a time, however many come', async () => {
    const bob = await newOwner(platform)
    await setQuota(platform.api, bob.organizationId, 'concurrent_builds', 1)
    const made = await Promise.all(Array.from({ length: 4 }, () => newDeployment(platform, bob, { status: 'PENDING' })))
    const ids = made.map(({ id }) => id)
    await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(inArray(deployments.id, ids))
    const claimed = await holding(
      platform.databaseUrl,
      (sql) => sql`select 1 from deployments where organization_id = ${bob.organizationId} for update`,
      ids.map((id) => () => claimDeployment(platform.api, id)),
    )
    expect(claimed.filter(Boolean)).toHaveLength(1)
    await platform.api.db.delete(deployments).where(inArray(deployments.id, ids))
  })

  test('leave a deployment alone that was cancelled while they claimed it', async () => {
    const bob = await newOwner(platform)
    const { id } = await newDeployment(platform, bob, { status: 'PENDING' })
    await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, id))
    const cancel = (sql: TransactionSql) =>
      sql`update deployments set status = 'FAILED', failure_reason = 'It was cancelled' where id = ${id}`
    const [claimed] = await holding(platform.databaseUrl, cancel, [() => claimDeployment(platform.api, id)])
    expect(claimed).toBeUndefined()
    expect(await deploymentOf(platform, id)).toMatchObject({ status: 'FAILED', attempt: 0, leaseUntil: null })
  })

  test('leave a deployment alone whose worker renewed its lapsed lease while they claimed it', async () => {
    const { id } = await newDeployment(platform, ana, { status: 'BUILDING' })
    // The lease lapses by the claim's clock alone: by the shared one, this file's worker would claim the deployment first.
    const leaseUntil = new Date(platform.api.now().getTime() + 60_000)
    const renewedUntil = new Date(leaseUntil.getTime() + 60_000)
    await platform.api.db.update(deployments).set({ attempt: 1, leaseUntil }).where(eq(deployments.id, id))
    const later = { ...platform.api, now: () => new Date(leaseUntil.getTime() + 1) }
    const renew = (sql: TransactionSql) => sql`update deployments set lease_until = ${renewedUntil} where id = ${id}`
    const [claimed] = await holding(platform.databaseUrl, renew, [() => claimDeployment(later, id)])
    expect(claimed).toBeUndefined()
    expect(await deploymentOf(platform, id)).toMatchObject({
      status: 'BUILDING',
      attempt: 1,
      interruptions: 0,
      leaseUntil: renewedUntil,
    })
    await platform.api.db.delete(deployments).where(eq(deployments.id, id))
  })
})

describe('the sweep', () => {
  test('fails uploads that were abandoned', async () => {
    const { id } = await newDeployment(platform, ana, { status: 'PENDING' })
    await sweepDeployments(platform.api)
    expect((await deploymentOf(platform, id)).status).toBe('PENDING')
    await platform.api.db
      .update(deployments)
      .set({ createdAt: new Date(platform.api.now().getTime() - 86_400_001) })
      .where(eq(deployments.id, id))
    await sweepDeployments(platform.api)
    const failed = await deploymentOf(platform, id)
    expect(failed).toMatchObject({
      status: 'FAILED',
      failureReason: 'The upload was abandoned: it was not completed within 24 hours',
    })
    expect(await logOf(platform, id)).toBe(`ERROR ${failed.failureReason}`)
  })

  test('fails a deployment whose state takes too long while its worker lives, and starts anew one whose worker is gone', async () => {
    const nowMs = platform.api.now().getTime()
    const late = { deadlineAt: new Date(nowMs - 1) }
    const [alive, gone] = await Promise.all(
      Array.from({ length: 2 }, () => newDeployment(platform, ana, { archive: site(1), status: 'BUILDING' })),
    )
    if (!alive || !gone) throw new Error('Two deployments were expected')
    const set = (id: string, leaseUntil: number) =>
      platform.api.db
        .update(deployments)
        .set({ ...late, attempt: 1, leaseUntil: new Date(leaseUntil), buildStartedAt: new Date(nowMs - 36_000_000) })
        .where(eq(deployments.id, id))
    await set(alive.id, nowMs + 60_000)
    await set(gone.id, nowMs - 1)
    await sweepDeployments(platform.api)
    expect(await deploymentOf(platform, alive.id)).toMatchObject({
      status: 'FAILED',
      failureReason: 'BUILDING took longer than 10 minutes',
    })
    const begunAgain = await untilEnded(platform, gone.id)
    expect(begunAgain).toMatchObject({ status: 'ACTIVE', attempt: 2, interruptions: 1 })
    // The lost worker's hours do not count as build minutes (D77).
    expect(begunAgain.buildStartedAt?.getTime()).toBeGreaterThanOrEqual(nowMs)
    expect(await logOf(platform, gone.id)).toMatch(
      /^INFO The worker on it was interrupted; another begins again\nINFO Unpacked/,
    )
  })

  test('gives up a deployment whose third worker falls silent', async () => {
    const { id } = await newDeployment(platform, ana, { archive: site(1), status: 'STARTING' })
    await platform.api.db
      .update(deployments)
      .set({
        attempt: 3,
        interruptions: 2,
        leaseUntil: new Date(platform.api.now().getTime() - 1),
        buildStartedAt: new Date(platform.api.now().getTime() - 36_000_000),
      })
      .where(eq(deployments.id, id))
    await sweepDeployments(platform.api)
    expect(await untilEnded(platform, id)).toMatchObject({
      status: 'FAILED',
      failureReason: 'The platform was interrupted',
      buildStartedAt: null,
      buildEndedAt: null,
    })
  })

  test('removes the folders of killed workers, and not those in use', async () => {
    const [stale, used] = [join(temporary, 'platform-build-stale'), join(temporary, 'platform-build-used')]
    for (const folder of [stale, used]) await mkdir(join(folder, 'files'), { recursive: true })
    const before = new Date(Date.now() - 121_000)
    await utimes(stale, before, before)
    await removeStaleFolders()
    expect((await readdir(temporary)).filter((name) => /stale|used/.test(name))).toEqual(['platform-build-used'])
    await rm(used, { recursive: true })
  })
})
