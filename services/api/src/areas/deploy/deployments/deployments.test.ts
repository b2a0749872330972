// engines: postgres
import { createHash, randomUUID } from 'node:crypto'
import { firstIdAt } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, sql } from 'drizzle-orm'
import type { TransactionSql } from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { eventsIn } from '../../../../test/events.ts'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { activities } from '../../tenancy/activity/table.ts'
import { setMember } from '../../tenancy/organizations/members.ts'
import { setBillingCap, setEntitlement } from '../../tenancy/products/products.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { uploads } from '../../storage/objects/table.ts'
import { expireUploads } from '../../storage/uploads/uploads.ts'
import { retireDeployment } from './retirement.ts'
import { buildLogs, deployments, type DeploymentStatus } from './table.ts'

const ORIGIN = 'https://console.example.com'
let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ corsOrigins: [ORIGIN] })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const create = (owner: Pick<Owner, 'token' | 'applicationId'> = ana, more: object = {}) =>
  platform.call(owner.token, 'POST /deployments', { applicationId: owner.applicationId, ...more })

async function newDeployment(owner: Pick<Owner, 'token' | 'applicationId'> = ana, more: object = {}): Promise<string> {
  const { status, body, text } = await create(owner, more)
  if (status !== 201) throw new Error(text)
  return body.id as string
}

/** Puts a deployment into a state that only a worker reaches. */
const put = (id: string, set: Partial<typeof deployments.$inferInsert>) =>
  platform.api.db.update(deployments).set(set).where(eq(deployments.id, id))
const get = async (id: string, owner: Pick<Owner, 'token'> = ana) =>
  (await platform.call(owner.token, `GET /deployments/${id}`)).body

const step = (id: string, name: string, body?: object, owner: Pick<Owner, 'token'> = ana) =>
  platform.call(owner.token, `POST /deployments/${id}/${name}`, body)

async function startUpload(id: string): Promise<string> {
  return (await step(id, 'upload/start')).body.uploadId as string
}

interface Part {
  partNumber: number
  etag: string
}

async function sendPart(id: string, uploadId: string, partNumber: number, bytes: Buffer | string): Promise<Part> {
  const { body } = await step(id, 'upload/part', { uploadId, partNumber })
  const answer = await fetch(body.url as string, {
    method: 'PUT',
    body: bytes,
    headers: { 'content-type': 'application/zip' },
  })
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
  return { partNumber, etag: answer.headers.get('etag') ?? '' }
}

describe('creating', () => {
  test('gives it a hostname of its own and a place in its environment, production unless said (D81)', async () => {
    const first = await create()
    expect(first.body).toEqual({
      id: expect.any(String) as string,
      applicationId: ana.applicationId,
      environmentId: expect.any(String) as string,
      environment: 'production',
      status: 'PENDING',
      hostname: expect.stringMatching(/^app-[0-9a-z-]+-[0-9a-f]{8}\.localhost:\d+$/) as string,
      url: expect.stringMatching(/^http:\/\/app-/) as string,
      isProduction: true,
      isCurrent: false,
      failureReason: null,
      retiredAt: null,
      git: null,
      createdBy: { type: 'user', id: ana.person.userId },
      sizeBytes: null,
      buildDurationMs: null,
      variables: null,
      createdAt: expect.stringMatching(/Z$/) as string,
      updatedAt: expect.stringMatching(/Z$/) as string,
    })
    expect(first.status).toBe(201)
    for (const more of [{ environment: 'preview' }, { environmentId: 'preview' }]) {
      const { body } = await create(ana, more)
      expect([body.environment, body.isProduction]).toEqual(['preview', false])
    }
    expect(await get(first.body.id as string)).toEqual(first.body)
  })

  test('two at once are both accepted, with places one after the other (D81)', async () => {
    const owner = await newOwner(platform)
    const environment = `(select id from environments where application_id = '${owner.applicationId}' and slug = 'production')`
    const ids = await holding(
      platform.databaseUrl,
      (held) => held.unsafe(`select 1 from environments where id = ${environment} for update`),
      [() => newDeployment(owner), () => newDeployment(owner)],
    )
    const rows = await platform.api.db
      .select()
      .from(deployments)
      .where(eq(deployments.applicationId, owner.applicationId))
    expect(rows.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect(rows.map(({ seq }) => seq).toSorted((a, b) => a - b)).toEqual([1, 2])
  })

  test.each([
    [{ environment: 'staging' }, 404],
    [{ environment: 'production', environmentId: 'preview' }, 400],
    [{ rootDirectory: 'apps/../x' }, 400],
    [{ gitSource: { repository: 'x' } }, 400],
    [{ root: 'x' }, 422],
    [{ applicationId: 'x' }, 422],
  ])('%j is refused with %i', async (more, status) => {
    expect((await create(ana, more)).status).toBe(status)
  })

  test('that is asked for once, with what is not supported and deeper than can be written again, is refused', async () => {
    const [open, close] = ['['.repeat(20_000), ']'.repeat(20_000)]
    const { status } = await fetch(`${platform.apiUrl}/deployments`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${ana.token}`,
        'content-type': 'application/json',
        'idempotency-key': crypto.randomUUID(),
      },
      body: `{"applicationId":"${ana.applicationId}","gitSource":${open}${close}}`,
    })
    expect(status).toBe(400)
  })

  test('is refused for billing reasons before the quota is looked at, and nothing is counted (D46, A §7)', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'deployments_per_day', 1)
    await newDeployment(owner)
    await setBillingCap(platform.api, owner.organizationId, 0)
    expect(await create(owner)).toMatchObject({
      status: 402,
      body: { error: expect.stringContaining('billing cap ($0.00 of $0.00') as string },
    })
    await setBillingCap(platform.api, owner.organizationId, null)
    const refused = await create(owner)
    expect([refused.status, refused.body, refused.headers['retry-after']]).toEqual([
      429,
      { error: 'Plan quota reached: deployments_per_day (1 of 1 used). Contact support to raise it.' },
      undefined,
    ])
    platform.clock.advance(86_400_000)
    expect((await create({ ...owner, token: await owner.person.token(everyScope) })).status).toBe(201)
    platform.clock.advance(-86_400_000)
  })

  test('is refused once the included build minutes are used, until a billing cap allows more (D77)', async () => {
    const owner = await newOwner(platform)
    const id = await newDeployment(owner)
    await setQuota(platform.api, owner.organizationId, 'build_minutes_per_month', 5)
    const end = platform.clock.now()
    await put(id, { buildStartedAt: new Date(end.getTime() - 420_000), buildEndedAt: end })
    expect(await create(owner)).toMatchObject({
      status: 402,
      body: { error: expect.stringContaining('included build minutes (7 of 5') as string },
    })
    await setBillingCap(platform.api, owner.organizationId, 20_000)
    expect((await create(owner)).status).toBe(402) // two minutes beyond the five cost just that
    await setBillingCap(platform.api, owner.organizationId, 20_001)
    expect((await create(owner)).status).toBe(201)
    const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
    expect(body.billing).toMatchObject({ capMicros: 20_001, spentMicros: 20_000 })
    const named = new Map((body.items as { name: string; used: number }[]).map((quota) => [quota.name, quota]))
    expect(named.get('build_minutes_per_month')).toMatchObject({ limit: 5, used: 7 })
    expect(named.get('deployments_per_day')).toMatchObject({ limit: 50, used: 2 })
    expect(named.get('archive_bytes')).toEqual({
      name: 'archive_bytes',
      limit: 262_144_000,
      used: null,
      windowEnd: null,
    })
  })

  test('minutes count in the month that the build ended in, however long it had to wait (D77)', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'build_minutes_per_month', 5)
    const now = platform.clock.now()
    const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)
    const used = async () => {
      const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
      const items = body.items as { name: string; used: number }[]
      return items.find(({ name }) => name === 'build_minutes_per_month')?.used
    }
    const id = await newDeployment(owner)
    await put(id, { buildStartedAt: new Date(month - 420_000), buildEndedAt: new Date(month - 1) })
    expect(await used()).toBe(0)
    // Created eight days before the month began: uploaded for a day and queued for a week.
    const early = firstIdAt(new Date(month - 8 * 86_400_000)).replace(/0{12}$/, id.slice(-12))
    await put(id, { id: early, buildStartedAt: new Date(month - 180_000), buildEndedAt: new Date(month + 240_000) })
    expect(await used()).toBe(7)
  })

  test('of racing creations no more succeed than the quota has room for (D77)', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'deployments_per_day', 2)
    const racers = await holding(
      platform.databaseUrl,
      (held) => held`select 1 from organizations where id = ${owner.organizationId} for update`,
      Array.from({ length: 4 }, () => () => create(owner)),
    )
    expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 201, 429, 429])
  })

  test('needs access to the product network (D91)', async () => {
    const owner = await newOwner(platform)
    await setEntitlement(platform.api, owner.organizationId, 'network', 'SUSPENDED')
    const { status, body } = await create(owner)
    expect([status, body]).toEqual([403, { error: 'The organization has no access to the product network' }])
  })

  test('a key deploys its own application and no other; a member may, too', async () => {
    const key = await newKey(platform, ana, ['network:deployments:trigger', 'network:deployments:read'])
    const { body } = await create({ token: key.token, applicationId: ana.applicationId })
    expect(body.createdBy).toEqual({ type: 'api_key', id: key.id })
    const other = await newOwner(platform)
    expect((await create({ token: key.token, applicationId: other.applicationId })).status).toBe(403)
    expect((await platform.call(key.token, `GET /deployments/${await newDeployment(other)}`)).status).toBe(404)
    const mia = await platform.person()
    await setMember(platform.api, ana.organizationId, mia.userId, 'MEMBER')
    expect((await create({ token: await mia.token(everyScope), applicationId: ana.applicationId })).status).toBe(201)
  })
})

describe('what a client states about its commit (D122)', () => {
  const git = {
    commit: '8f3b6f0c2d1e4a59b7c8d9e0f1a2b3c4d5e6f708',
    branch: 'feature/größe',
    message: 'Show the total\n\n\t- before paying\r\n<script>',
    isDirty: false,
    pullRequest: 42,
    repository: 'https://git.example.com:8443/acme/shop.git?x=a@b',
  }
  const unset = {
    commit: null,
    branch: null,
    message: null,
    isDirty: null,
    pullRequest: null,
    repository: null,
  }
  /** Not `ana`, whose quota the other tests use. */
  let bea: Owner
  beforeAll(async () => {
    bea = await newOwner(platform)
  })

  test.each(['user', 'key'] as const)(
    'is shown by its deployment, alone and in lists, from then on: as a %s sent it',
    async (kind) => {
      const owner = await newOwner(platform)
      const scopes = ['network:deployments:trigger', 'network:deployments:read']
      const token = kind === 'user' ? owner.token : (await newKey(platform, owner, scopes)).token
      const by = { token, applicationId: owner.applicationId }
      const whole = await create(by, { git })
      expect([whole.status, whole.body.git]).toEqual([201, git])
      const part = await create(by, { git: { branch: '', isDirty: true } })
      expect(part.body.git).toEqual({ ...unset, branch: '', isDirty: true })
      const id = whole.body.id as string
      expect(await get(id, by)).toEqual(whole.body)
      for (const query of ['', `?applicationId=${owner.applicationId}`, `?environment=production`]) {
        const { body } = await platform.call(token, `GET /deployments${query}`)
        expect(body.items).toEqual([part.body, whole.body])
      }
      expect((await step(id, 'cancel', undefined, by)).body.git).toEqual(git)
    },
  )

  test.each([{}, { git: {} }])('is null where nothing was sent: %j', async (more) => {
    const { status, body } = await create(bea, more)
    expect([status, body.git]).toEqual([201, null])
    expect((await get(body.id as string, bea)).git).toBeNull()
  })

  test('is null of a deployment from before there was such a thing', async () => {
    const id = await newDeployment(bea, { git })
    await put(id, { git: null })
    expect((await get(id, bea)).git).toBeNull()
  })

  test.each([
    { commit: 'f'.repeat(64) },
    { branch: 'ü'.repeat(254) + '😀' },
    { message: '😀'.repeat(1_000) },
    { pullRequest: 1 },
    { pullRequest: 2_147_483_647 },
    { repository: `http://x/${'y'.repeat(2_039)}` },
    { repository: 'https://[::1]/acme/shop' },
  ])('may be as long as the limits say, counted in characters (%#)', async (sent) => {
    const { status, body } = await create(bea, { git: sent })
    expect([status, body.git]).toEqual([201, { ...unset, ...sent }])
  })

  test.each<[property: string, sent: unknown]>([
    ['/git/commit', { commit: 'f'.repeat(65) }],
    ['/git/commit', { commit: 'a\nb' }],
    ['/git/commit', { commit: null }],
    ['/git/branch', { branch: 'x'.repeat(256) }],
    ['/git/branch', { branch: 'a\u0000' }],
    ['/git/branch', { branch: 'a\u0085' }],
    ['/git/branch', { branch: '\ud800' }],
    ['/git/branch', { branch: ['main'] }],
    ['/git/message', { message: 'x'.repeat(1_001) }],
    ['/git/message', { message: 'a\u0000' }],
    ['/git/message', { message: '\u001b[2J' }],
    ['/git/isDirty', { isDirty: 'true' }],
    ['/git/pullRequest', { pullRequest: 0 }],
    ['/git/pullRequest', { pullRequest: 1.5 }],
    ['/git/pullRequest', { pullRequest: '42' }],
    ['/git/pullRequest', { pullRequest: 2_147_483_648 }],
    ['/git/repository', { repository: `http://x/${'y'.repeat(2_040)}` }],
    ['/git/repository', { repository: '' }],
    ['/git/repository', { repository: 'acme/shop' }],
    ['/git/repository', { repository: 'git@git.example.com:acme/shop.git' }],
    ['/git/repository', { repository: 'ssh://git.example.com/acme/shop' }],
    ['/git/repository', { repository: 'javascript:alert(1)//https://x' }],
    ['/git/repository', { repository: 'https://ci:token@git.example.com/acme/shop' }],
    ['/git/repository', { repository: 'https://ci@git.example.com/acme/shop' }],
    ['/git/repository', { repository: 'https:///acme/shop' }],
    ['/git/repository', { repository: 'https://git.example.com:x/acme/shop' }],
    ['/git/repository', { repository: ' https://git.example.com/acme/shop' }],
    ['/git/repository', { repository: 'https://git.example.com/acme shop' }],
    ['/git/tag', { tag: 'v1' }],
    ['/git', 'main'],
    ['/git', []],
    ['/git', null],
  ])('is refused with the whole creation, naming %s (%#)', async (property, sent) => {
    const { status, body } = await create(bea, { git: sent })
    expect([status, body.on, body.property]).toEqual([422, 'body', property])
  })

  test('is part of what a repeat must have in common with the request before it (A §1)', async () => {
    const owner = await newOwner(platform)
    const repeat = (sent: object) =>
      platform.call(
        owner.token,
        'POST /deployments',
        { applicationId: owner.applicationId, git: sent },
        { 'idempotency-key': 'one' },
      )
    const first = await repeat(git)
    const second = await repeat(git)
    expect([first.status, second.status, second.text]).toEqual([201, 201, first.text])
    expect((await repeat({ ...git, pullRequest: 43 })).status).toBe(422)
    expect((await platform.call(owner.token, 'GET /deployments')).body.total).toBe(1)
  })

  test('does not make a source of it: gitSource is refused beside it', async () => {
    expect((await create(bea, { git, gitSource: { repository: git.repository } })).status).toBe(400)
  })
})

describe('lists', () => {
  test('hold what is in reach, newest first, with filters that must all match (A §1)', async () => {
    const owner = await newOwner(platform)
    const other = await newOwner(platform, owner.person)
    const ids = [await newDeployment(owner), await newDeployment(owner), await newDeployment(other)]
    await put(ids[0] ?? '', { status: 'FAILED' })
    const list = async (query: string) => {
      const { body } = await platform.call(other.token, `GET /deployments?${query}`)
      return [body.total as number, ...(body.items as { id: string }[]).map(({ id }) => ids.indexOf(id))]
    }
    expect(await list('')).toEqual([3, 2, 1, 0])
    expect(await list('limit=1')).toEqual([3, 2])
    expect(await list(`limit=2&from=${ids[2]}`)).toEqual([3, 1, 0])
    expect(await list('status=FAILED')).toEqual([1, 0])
    expect(await list(`applicationId=${owner.applicationId}&status=PENDING`)).toEqual([1, 1])
    expect(await list(`organizationId=${other.organizationId}`)).toEqual([1, 2])
    expect(await list(`organizationId=${other.organizationId}&applicationId=${owner.applicationId}`)).toEqual([0])
    const key = await newKey(platform, owner, ['network:deployments:read'])
    const ofKey = (query: string) => platform.call(key.token, `GET /deployments${query}`)
    expect((await ofKey('')).body.total).toBe(2)
    expect((await ofKey(`?organizationId=${owner.organizationId}`)).body.total).toBe(2)
    expect((await ofKey(`?organizationId=${other.organizationId}`)).status).toBe(403)
    expect((await ofKey(`?applicationId=${other.applicationId}`)).status).toBe(403)
    expect((await ofKey('?status=RUNNING')).status).toBe(422)
  })

  test.each(['user', 'key'] as const)(
    'of a %s name organizations and applications by the rules of reach, each by itself (D16, D17)',
    async (kind) => {
      const [owner, foreign] = await Promise.all([newOwner(platform), newOwner(platform)])
      await newDeployment(owner)
      const token = kind === 'user' ? owner.token : (await newKey(platform, owner, ['network:deployments:read'])).token
      const list = async (query: { organizationId?: string; applicationId?: string }) => {
        const { status, body } = await platform.call(token, `GET /deployments?${new URLSearchParams(query).toString()}`)
        return [status, status === 200 ? body.total : (body.error as string)]
      }
      const { organizationId, applicationId } = owner
      expect(await list({ organizationId, applicationId })).toEqual([200, 1])
      const missing = [404, 'Organization not found']
      const elsewhere = kind === 'user' ? missing : [403, 'Access denied']
      for (const own of [{}, { applicationId }]) {
        expect(await list({ ...own, organizationId: foreign.organizationId })).toEqual(elsewhere)
        expect(await list({ ...own, organizationId: randomUUID() })).toEqual(missing)
        expect((await list({ ...own, organizationId: 'x' }))[0]).toBe(422)
      }
      const missingApplication = [404, 'Application not found']
      expect(await list({ organizationId, applicationId: randomUUID() })).toEqual(missingApplication)
      expect(await list({ organizationId, applicationId: foreign.applicationId })).toEqual(
        kind === 'user' ? missingApplication : elsewhere,
      )
      expect((await list({ applicationId: 'x' }))[0]).toBe(422)
    },
  )

  test('hold the deployments of the environments that a slug or UUID names, of each application in reach (D35, D74)', async () => {
    const owner = await newOwner(platform)
    const [other, foreign] = await Promise.all([newOwner(platform, owner.person), newOwner(platform)])
    const ids = [
      await newDeployment(owner),
      await newDeployment(owner, { environment: 'preview' }),
      await newDeployment(other, { environment: 'preview' }),
      await newDeployment(owner, { environment: 'preview' }),
    ]
    const environmentOf = async (id = '', of = owner) => (await get(id, of)).environmentId as string
    const [production, preview, ofOther] = await Promise.all(ids.map((id) => environmentOf(id)))
    const theirs = await environmentOf(await newDeployment(foreign, { environment: 'preview' }), foreign)
    const list = async (query: object, token = other.token) => {
      const search = new URLSearchParams(query as Record<string, string>).toString()
      const { status, body } = await platform.call(token, `GET /deployments?${search}`)
      if (status !== 200) return [status, body.error as string]
      return [body.total as number, ...(body.items as { id: string }[]).map(({ id }) => ids.indexOf(id))]
    }
    const { applicationId } = owner
    const key = await newKey(platform, owner, ['network:deployments:read'])
    const missing = [404, 'Environment not found']
    const differ = [400, 'environment and environmentId name different environments']
    for (const name of ['environment', 'environmentId']) {
      expect(await list({ [name]: 'preview' })).toEqual([3, 3, 2, 1])
      expect(await list({ [name]: 'preview', limit: 2 })).toEqual([3, 3, 2])
      expect(await list({ [name]: 'preview', from: ids[2] })).toEqual([3, 1])
      expect(await list({ [name]: 'preview', organizationId: owner.organizationId })).toEqual([2, 3, 1])
      expect(await list({ [name]: 'preview', applicationId })).toEqual([2, 3, 1])
      expect(await list({ [name]: 'preview' }, key.token)).toEqual([2, 3, 1])
      expect(await list({ [name]: preview?.toUpperCase() })).toEqual([2, 3, 1])
      expect(await list({ [name]: preview, organizationId: owner.organizationId })).toEqual([2, 3, 1])
      expect(await list({ [name]: preview }, key.token)).toEqual([2, 3, 1])
      expect(await list({ [name]: preview, organizationId: other.organizationId })).toEqual([0])
      expect(await list({ [name]: production, applicationId, organizationId: other.organizationId })).toEqual([0])
      for (const no of [theirs, randomUUID(), 'staging']) {
        for (const further of [{}, { applicationId }, { organizationId: owner.organizationId }])
          expect(await list({ [name]: no, ...further })).toEqual(missing)
        expect(await list({ [name]: no }, key.token)).toEqual(missing)
      }
      expect(await list({ [name]: preview, applicationId: other.applicationId })).toEqual(missing)
      for (const malformed of ['', 'a b', '-preview', 'a/b', '\0', 'x'.repeat(64)])
        expect((await list({ [name]: malformed }))[0]).toBe(422)
    }
    await put(ids[3] ?? '', { status: 'FAILED' })
    for (const environment of ['preview', preview])
      expect(await list({ environment, status: 'FAILED' })).toEqual([1, 3])
    expect(await list({ environment: 'preview', environmentId: preview })).toEqual([2, 3, 1])
    expect(await list({ environment: preview, environmentId: ofOther })).toEqual(differ)
    expect(await list({ environment: preview, environmentId: 'preview', applicationId })).toEqual([2, 3, 1])
    for (const further of [{}, { applicationId }]) {
      expect(await list({ environment: 'preview', environmentId: 'production', ...further })).toEqual(differ)
      expect(await list({ environment: 'preview', environmentId: production, ...further })).toEqual(differ)
      expect(await list({ environment: preview, environmentId: production, ...further })).toEqual(differ)
      expect(await list({ environment: 'preview', environmentId: theirs, ...further })).toEqual(missing)
    }
  })

  test('of environments with 100,000 deployments read a page of them, however rare what they look for is', async () => {
    // One connection, so that its own statistics are the ones that are read.
    const narrow = await startPlatform({ env: { DATABASE_POOL: '1' } })
    onTestFinished(() => narrow.close())
    const { db } = narrow.api
    const owner = await newOwner(narrow)
    const { token, applicationId, organizationId } = owner
    const create = (environment: string) =>
      narrow.call(token, 'POST /deployments', { applicationId, environment }).then(({ body }) => body as { id: string })
    const rare = await create('preview')
    const { environmentId } = (await narrow.call(token, `GET /deployments/${(await create('production')).id}`)).body
    // In parts: one statement for all of them would run into the statement timeout.
    for (let made = 0; made < 100_000; made += 10_000)
      await db.execute(sql`
        insert into deployments (id, organization_id, application_id, environment_id, seq, status, label, created_by, created_at, updated_at)
        select gen_random_uuid(), organization_id, application_id, environment_id, seq + n, 'FAILED', label || n, created_by, created_at, updated_at
        from deployments, generate_series(${made + 1}::int, ${made + 10_000}::int) n
        where environment_id = ${environmentId as string} and status = 'PENDING'`)
    await db.execute('analyze')
    const rowsRead = async () => {
      await db.execute('select pg_stat_force_next_flush()')
      const [row] = await db.execute<{ rows: number }>(sql`
        select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_user_tables
        where relname in ('deployments', 'environment_deployment_counts')`)
      return row?.rows ?? 0
    }
    const list = async (query: object) => {
      const before = await rowsRead()
      const search = new URLSearchParams(query as Record<string, string>).toString()
      const { body } = await narrow.call(token, `GET /deployments?${search}`)
      const items = (body.items as { id: string }[]).map(({ id }) => id)
      return { total: body.total as number, items, rows: (await rowsRead()) - before }
    }
    for (const query of [
      { environment: environmentId as string },
      { environment: 'production' },
      { environment: 'production', applicationId },
      { environment: 'production', organizationId },
    ]) {
      const { total, items, rows } = await list(query)
      expect([query, total, items.length, rows < 100]).toEqual([query, 100_001, 10, true])
      const pending = await list({ ...query, status: 'PENDING' })
      expect([query, pending.total, pending.items.length, pending.rows < 100]).toEqual([query, 1, 1, true])
    }
    const { total, items, rows } = await list({ environment: 'preview' })
    expect([total, items, rows < 100]).toEqual([1, [rare.id], true])
  })

  test('come in pages of 10 unless said, of 1 to 100, and go on behind one that is gone (A §1, D30)', async () => {
    const owner = await newOwner(platform)
    const ids: string[] = []
    for (let n = 0; n < 12; n++) ids.unshift(await newDeployment(owner))
    const list = async (query: string) => {
      const { status, body } = await platform.call(owner.token, `GET /deployments${query}`)
      return status === 200 ? (body.items as { id: string }[]).map(({ id }) => id) : status
    }
    expect(await list('')).toEqual(ids.slice(0, 10))
    expect(await list('?limit=1')).toEqual(ids.slice(0, 1))
    expect(await list('?limit=100')).toEqual(ids)
    for (const limit of ['0', '101', '-1', '1.5', 'x']) expect(await list(`?limit=${limit}`)).toBe(422)
    expect(await list('?from=x')).toBe(422)
    const [, , gone = ''] = ids
    await platform.api.db.delete(deployments).where(eq(deployments.id, gone))
    for (const filter of ['', `&applicationId=${owner.applicationId}`, `&organizationId=${owner.organizationId}`])
      expect(await list(`?from=${gone}&limit=2${filter}`)).toEqual(ids.slice(3, 5))
  })
})

test('the totals of lists are right whatever happens at once', async () => {
  const owner = await newOwner(platform)
  const [cancelled, other] = [await newDeployment(owner), await newDeployment(owner)]
  await holding(
    platform.databaseUrl,
    (held) => held`select 1 from deployment_counts where application_id = ${owner.applicationId} for update`,
    [
      () => step(cancelled, 'cancel', undefined, owner),
      () => newDeployment(owner),
      () => put(other, { status: 'QUEUED' }),
      () => newDeployment(owner),
    ],
  )
  const total = async (query: string) =>
    (await platform.call(owner.token, `GET /deployments?applicationId=${owner.applicationId}${query}`)).body
      .total as number
  for (const of of ['', '&environment=production'])
    expect([await total(of), await total(`${of}&status=PENDING`), await total(`${of}&status=FAILED`)]).toEqual([
      4, 2, 1,
    ])
  await platform.api.db.delete(deployments).where(eq(deployments.id, other))
  expect([await total(''), await total('&environment=production')]).toEqual([3, 3])
})

describe('uploading', () => {
  test('in parts out of order, one of them sent again; completed, the deployment is queued with its archive (D80)', async () => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    expect(await startUpload(id)).toBe(uploadId)
    const [third, first] = await Promise.all([sendPart(id, uploadId, 3, 'cc'), sendPart(id, uploadId, 1, 'wrong')])
    const again = await sendPart(id, uploadId, 1, 'a')
    const second = await sendPart(id, uploadId, 2, Buffer.alloc(100_000, 'b'))
    const fourth = await sendPart(id, uploadId, 4, 'dropped')
    expect(again.etag).toBe(`"${createHash('md5').update('a').digest('hex')}"`)
    expect((await step(id, 'upload/complete', { uploadId, parts: [first, second, third] })).status).toBe(400)
    const parts = [third, { ...again, etag: again.etag.replaceAll('"', '') }, second]
    expect((await step(id, 'upload/complete', { uploadId, parts })).status).toBe(204)
    const [row] = await platform.api.db.select().from(deployments).where(eq(deployments.id, id))
    expect([row?.status, row?.archiveBytes]).toEqual(['QUEUED', 100_003])
    expect((await step(id, 'upload/complete', { uploadId, parts: parts.toReversed() })).status).toBe(204)
    expect((await step(id, 'upload/complete', { uploadId, parts: [...parts, fourth] })).status).toBe(409)
  })

  /**
   * Each invalid step, on a deployment whose parts 1 and 2 were uploaded, with the expected status or the start of the 400's
   * message.
   */
  const wrong: [
    name: string,
    take: (id: string, uploadId: string, parts: Part[]) => Promise<number | string>,
    expected: number | string,
  ][] = [
    ['a part with the number 0', (id, uploadId) => partStatus(id, { uploadId, partNumber: 0 }), 422],
    ['a part with the number 10,001', (id, uploadId) => partStatus(id, { uploadId, partNumber: 10_001 }), 422],
    ['a part of no upload', (id) => partStatus(id, { uploadId: randomUUID(), partNumber: 1 }), 404],
    ['a part of something that is no id', (id) => partStatus(id, { uploadId: 'x', partNumber: 1 }), 422],
    [
      "a part of another deployment's upload",
      async (id) => partStatus(id, { uploadId: await startUpload(await newDeployment()), partNumber: 1 }),
      404,
    ],
    ['completing with no part', (id, uploadId) => completeStatus(id, { uploadId, parts: [] }), 422],
    ['completing with a part twice', (id, uploadId, [one]) => completeStatus(id, { uploadId, parts: [one, one] }), 422],
    [
      'completing with an ETag that is none',
      (id, uploadId) => completeStatus(id, { uploadId, parts: [{ partNumber: 1, etag: 'x' }] }),
      422,
    ],
    ['completing with a gap', (id, uploadId, [, two]) => refusal(id, { uploadId, parts: [two] }), 'Part 1 is'],
    [
      'completing with a part that was not uploaded',
      (id, uploadId, parts) => refusal(id, { uploadId, parts: [...parts, { partNumber: 3, etag: parts[0]?.etag }] }),
      'Part 3 was',
    ],
    [
      'completing with a wrong ETag',
      (id, uploadId, [one]) =>
        refusal(id, { uploadId, parts: [{ ...one }, { partNumber: 2, etag: `"${'0'.repeat(32)}"` }] }),
      'Part 2 has',
    ],
    [
      "completing another deployment's upload",
      async (id, _, parts) => completeStatus(id, { uploadId: await startUpload(await newDeployment()), parts }),
      404,
    ],
    [
      'completing with more than 2 MiB',
      (id, uploadId) => completeStatus(id, { uploadId, parts: [{ partNumber: 1, etag: 'x'.repeat(2_100_000) }] }),
      413,
    ],
    ['promoting what waits for its archive', async (id) => (await step(id, 'promote')).status, 409],
  ]
  const partStatus = async (id: string, body: object) => (await step(id, 'upload/part', body)).status
  const completeStatus = async (id: string, body: object) => (await step(id, 'upload/complete', body)).status
  /** The start of a 400's message, which names the part; for other answers the status. */
  async function refusal(id: string, named: object): Promise<string | number> {
    const { status, body } = await step(id, 'upload/complete', named)
    return status === 400 ? (body.error as string).split(' ', 3).join(' ') : status
  }
  test.each(wrong)('%s is refused and changes nothing (D80)', async (_, take, expected) => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    const parts = [await sendPart(id, uploadId, 1, 'a'), await sendPart(id, uploadId, 2, 'b')]
    expect(await take(id, uploadId, parts)).toBe(expected)
    expect((await get(id)).status).toBe('PENDING')
    expect(await completeStatus(id, { uploadId, parts })).toBe(204)
  })

  test.each(['QUEUED', 'BUILDING', 'ACTIVE', 'FAILED'] satisfies DeploymentStatus[])(
    'is over when the deployment is %s: start, part, the part’s URL and a first complete are 409 (D80)',
    async (status) => {
      const id = await newDeployment()
      const uploadId = await startUpload(id)
      const part = await sendPart(id, uploadId, 1, 'a')
      const { url } = (await step(id, 'upload/part', { uploadId, partNumber: 2 })).body as { url: string }
      await put(id, { status })
      expect((await step(id, 'upload/start')).status).toBe(409)
      expect(await partStatus(id, { uploadId, partNumber: 2 })).toBe(409)
      expect((await fetch(url, { method: 'PUT', body: 'b' })).status).toBe(409)
      expect(await completeStatus(id, { uploadId, parts: [part] })).toBe(409)
    },
  )

  test('parts stay whole until the deployment is given up, even when expired uploads are cleared away first (D45)', async () => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    const part = await sendPart(id, uploadId, 1, 'late')
    const aDayLater = new Date(platform.clock.now().getTime() + 86_400_001)
    await expireUploads({ db: platform.api.db, now: () => aDayLater })
    expect((await step(id, 'upload/complete', { uploadId, parts: [part] })).status).toBe(204)
  })

  test('the same complete is 204 for good, also when the deployment has ended and its archive is removed (D80)', async () => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    const parts = [await sendPart(id, uploadId, 1, 'a')]
    const complete = async (named: object) => (await step(id, 'upload/complete', named)).status
    expect(await complete({ uploadId, parts })).toBe(204)
    for (const status of ['ACTIVE', 'FAILED'] as const) {
      await put(id, { status })
      await platform.api.db.delete(uploads).where(eq(uploads.id, uploadId))
      expect(await complete({ uploadId, parts })).toBe(204)
      expect(await complete({ uploadId, parts: [{ partNumber: 1, etag: '0'.repeat(32) }] })).toBe(409)
      expect(await complete({ uploadId: randomUUID(), parts })).toBe(404)
      expect((await step(id, 'upload/part', { uploadId, partNumber: 1 })).status).toBe(409)
    }
  })

  test('a part and a complete that race, and a complete and a cancel, come one after the other (D80)', async () => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    const parts = [await sendPart(id, uploadId, 1, 'a')]
    const { url } = (await step(id, 'upload/part', { uploadId, partNumber: 1 })).body as { url: string }
    const lock = (of: string) => (held: TransactionSql) => held`select 1 from deployments where id = ${of} for update`
    const complete = async (of: string, named: object) => (await step(of, 'upload/complete', named)).status
    const late = async () => (await fetch(url, { method: 'PUT', body: 'later' })).status
    const outcomes = await holding(platform.databaseUrl, lock(id), [() => complete(id, { uploadId, parts }), late])
    // Either order is possible, but what completes is what was checked.
    expect([
      [204, 409],
      [400, 200],
    ]).toContainEqual(outcomes)
    const other = await newDeployment()
    const otherUpload = await startUpload(other)
    const otherParts = [await sendPart(other, otherUpload, 1, 'a')]
    const cancelling = await holding(platform.databaseUrl, lock(other), [
      async () => (await step(other, 'cancel')).status,
      () => complete(other, { uploadId: otherUpload, parts: otherParts }),
    ])
    expect([
      [200, 409],
      [200, 204],
    ]).toContainEqual(cancelling)
    expect((await get(other)).status).toBe('FAILED')
  })

  test('a part’s URL is all authority it takes: another one, a changed or an old one takes nothing (D12, D80)', async () => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    const { url } = (await step(id, 'upload/part', { uploadId, partNumber: 1 })).body as { url: string }
    const send = async (to: string, method = 'PUT') => (await fetch(to, { method, body: 'a' })).status
    expect(await send(url.replace('/1?', '/2?'))).toBe(403)
    expect(await send(url.replace(/expires=\d+/, 'expires=9999999999'))).toBe(403)
    expect(await send(url.replace(/&signature=.*/, ''))).toBe(403)
    expect(await send(`${url}&expires=9999999999`)).toBe(422) // given twice (D116)
    expect(await send(url.replace(uploadId, randomUUID()))).toBe(403)
    expect(await send(url.replace('/1?', '/0?'))).toBe(404)
    expect(await send(url, 'POST')).toBe(404)
    platform.clock.advance(3_601_000)
    expect(await send(url)).toBe(403)
    platform.clock.advance(-3_601_000)
    expect(await send(url)).toBe(200)
  })

  test('a page of a configured origin may send a part and read its ETag; one of another may not (D12, D80)', async () => {
    const id = await newDeployment()
    const uploadId = await startUpload(id)
    const { url } = (await step(id, 'upload/part', { uploadId, partNumber: 1 })).body as { url: string }
    const from = (origin: string, init: { method: string; headers: Record<string, string>; body?: string }) =>
      fetch(url, { ...init, headers: { ...init.headers, origin } })
    const preflight = {
      method: 'OPTIONS',
      headers: { 'access-control-request-method': 'PUT', 'access-control-request-headers': 'content-type' },
    }
    const options = await from(ORIGIN, preflight)
    expect([options.status, options.headers.get('access-control-allow-origin')]).toEqual([204, ORIGIN])
    expect(options.headers.get('access-control-allow-methods')?.split(', ')).toContain('PUT')
    expect(options.headers.get('access-control-allow-headers')?.split(', ')).toContain('Content-Type')
    const part = { method: 'PUT', body: 'a', headers: { 'content-type': 'image/png' } }
    const sent = await from(ORIGIN, part)
    expect([sent.status, sent.headers.get('access-control-allow-origin'), sent.headers.get('etag')]).toEqual([
      200,
      ORIGIN,
      `"${createHash('md5').update('a').digest('hex')}"`,
    ])
    expect(sent.headers.get('access-control-expose-headers')?.split(', ')).toContain('ETag')
    const refused = await from(ORIGIN, { ...part, method: 'POST' })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([404, ORIGIN])
    for (const init of [preflight, part])
      expect((await from('https://evil.example.com', init)).headers.get('access-control-allow-origin')).toBeNull()
  })

  test('parts that are larger than the plan allows together are 413, even when they arrive together (D80)', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'archive_bytes', 100_000)
    const id = await newDeployment(owner)
    const uploadId = (await step(id, 'upload/start', undefined, owner)).body.uploadId as string
    const urls = await Promise.all(
      [1, 2, 3].map(
        async (partNumber) => (await step(id, 'upload/part', { uploadId, partNumber }, owner)).body.url as string,
      ),
    )
    const send = async (url: string | undefined, length: number) =>
      (await fetch(url ?? '', { method: 'PUT', body: Buffer.alloc(length) })).status
    expect(await send(urls[0], 100_001)).toBe(413)
    // Both parts are received before either is counted.
    const racers = await holding(
      platform.databaseUrl,
      (held) => held`select 1 from deployments where id = ${id} for update`,
      [() => send(urls[0], 60_000), () => send(urls[1], 60_000)],
    )
    expect(racers.toSorted((a, b) => a - b)).toEqual([200, 413])
    expect(await send(urls[2], 40_000)).toBe(200)
    expect(await send(urls[2], 40_001)).toBe(413)
  })
})

describe('promote and cancel', () => {
  async function active(owner: Owner, environment = 'production'): Promise<string> {
    const id = await newDeployment(owner, { environment })
    await put(id, { status: 'ACTIVE' })
    return id
  }
  const current = async (owner: Owner) =>
    ((await platform.call(owner.token, 'GET /deployments')).body.items as { id: string; isCurrent: boolean }[])
      .filter(({ isCurrent }) => isCurrent)
      .map(({ id }) => id)

  test('an ACTIVE deployment takes the place of the current one, and back (wire.md)', async () => {
    const owner = await newOwner(platform)
    await platform.call(owner.token, `PUT /applications/${owner.applicationId}/hostname`, {
      label: `rollback-${owner.applicationId.slice(-8)}x`,
    })
    const ids = [await active(owner), await active(owner)]
    for (const id of [...ids, ids[0] ?? '']) {
      const { status, body } = await step(id, 'promote', undefined, owner)
      expect([status, body.isCurrent]).toEqual([200, true])
      expect(await current(owner)).toEqual([id])
      const { body: list } = await platform.call(owner.token, `GET /deployments/${id}/hostnames`)
      expect(list.items).toMatchObject([
        { type: 'DEPLOYMENT', active: true, deploymentId: id },
        { type: 'APP', active: true, deploymentId: id },
      ])
    }
    const { body } = await platform.call(owner.token, `GET /applications/${owner.applicationId}/hostnames`)
    expect(
      (body.items as { type: string; active: boolean }[])
        .map(({ type, active: answers }) => `${type} ${answers}`)
        .toSorted(),
    ).toEqual(['APP true', 'BRANCH false', 'DEPLOYMENT true', 'DEPLOYMENT true'])
  })

  test('a promotion that Postgres refuses at the commit is none, and no activity either', async () => {
    const owner = await newOwner(platform)
    const id = await active(owner)
    const { db } = platform.api
    await db.execute(sql`
      create function refuse_commit() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`)
    onTestFinished(async () => void (await db.execute(sql`drop function refuse_commit cascade`)))
    await db.execute(sql`
      create constraint trigger refuse_commit after update on environments deferrable initially deferred
      for each row when (new.application_id = ${sql.raw(`'${owner.applicationId}'`)}) execute function refuse_commit()`)
    expect((await step(id, 'promote', undefined, owner)).status).toBe(500)
    expect(await current(owner)).toEqual([])
    const promotions = and(
      eq(activities.applicationId, owner.applicationId),
      eq(activities.type, 'deployment.promoted'),
    )
    expect(await db.$count(activities, promotions)).toBe(0)
  })

  test('one that was retired is not promoted, even when it is retired meanwhile (D83)', async () => {
    const owner = await newOwner(platform)
    const id = await active(owner)
    const [answer] = await holding(
      platform.databaseUrl,
      (held) => held`update deployments set retired_at = now() where id = ${id}`,
      [() => step(id, 'promote', undefined, owner)],
    )
    expect(answer?.status).toBe(409)
    expect(await current(owner)).toEqual([])
  })

  test('one that is retired says since when; its hostname is listed with it as inactive, and no longer with its application (D83)', async () => {
    const owner = await newOwner(platform)
    const [kept, id] = [await active(owner), await active(owner)]
    const hostnames = async (of: string) => {
      const { body } = await platform.call(owner.token, `GET ${of}/hostnames`)
      return [
        body.total,
        (body.items as { deploymentId: string; active: boolean }[]).map((h) => [h.deploymentId, h.active]),
      ]
    }
    const application = `/applications/${owner.applicationId}`
    const before = await get(id, owner)
    expect([before.status, before.retiredAt]).toEqual(['ACTIVE', null])
    expect(await hostnames(`/deployments/${id}`)).toEqual([1, [[id, true]]])
    expect(await hostnames(application)).toEqual([
      2,
      [
        [id, true],
        [kept, true],
      ],
    ])
    const time = platform.clock.now()
    expect(await retireDeployment({ db: platform.api.db, now: () => time }, id)).toBe(true)
    const retired = { ...before, retiredAt: time.toISOString(), updatedAt: time.toISOString() }
    expect(await get(id, owner)).toEqual(retired)
    expect((await platform.call(owner.token, 'GET /deployments?limit=1')).body.items).toEqual([retired])
    expect(await hostnames(`/deployments/${id}`)).toEqual([1, [[id, false]]])
    expect(await hostnames(application)).toEqual([1, [[kept, true]]])
  })

  test('what has not ended can be cancelled, once; it says so (wire.md)', async () => {
    for (const status of ['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING'] as const) {
      const id = await newDeployment()
      await put(id, { status })
      const { status: answered, body } = await step(id, 'cancel')
      expect([answered, body.status, body.failureReason]).toEqual([200, 'FAILED', 'Cancelled'])
      expect((await step(id, 'cancel')).status).toBe(409)
    }
    expect((await step(await active(ana), 'cancel')).status).toBe(409)
  })
})

describe('build logs', () => {
  const start = Date.parse('2026-11-22T10:00:00.000Z')
  async function write(id: string, from: number, count: number): Promise<string[]> {
    const rows = Array.from({ length: count }, (_, n) => ({
      deploymentId: id,
      createdAt: new Date(start + from + n),
      id: randomUUID(),
      type: 'INFO' as const,
      message: `line ${from + n}`,
    }))
    await platform.api.db.insert(buildLogs).values(rows)
    return rows.map((row) => row.id)
  }
  /** Follows a log until the server closes. */
  async function* follow(id: string, lastEventId?: string) {
    const answer = await fetch(`${platform.apiUrl}/deployments/${id}/logs/stream`, {
      headers: {
        authorization: `Bearer ${ana.token}`,
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      },
    })
    if (answer.status !== 200) throw new Error(String(answer.status))
    yield* eventsIn<Record<string, string>>(answer.body)
  }

  test('are paged from the oldest line, or from a moment on (A §1, D84)', async () => {
    const id = await newDeployment()
    await write(id, 0, 120)
    const page = async (query: string) => (await platform.call(ana.token, `GET /deployments/${id}/logs?${query}`)).body
    expect(await page('')).toMatchObject({ totalItems: 120, limit: 100, offset: 0 })
    const { items } = await page('offset=118&limit=1000')
    expect(items).toEqual(
      [118, 119].map((n) => ({
        id: expect.any(String) as string,
        message: `line ${n}`,
        type: 'INFO',
        createdAt: new Date(start + n).toISOString(),
      })),
    )
    const after = await page(`createdAt[gt]=${new Date(start + 117).toISOString()}`)
    expect([after.totalItems, after.items]).toEqual([2, items])
    for (const query of ['limit=1001', 'limit=0', 'offset=-1', 'createdAt[gt]=yesterday'])
      expect((await platform.call(ana.token, `GET /deployments/${id}/logs?${query}`)).status).toBe(422)
  })

  test('are followed to the end: every line, each state, then the server closes (D85)', async () => {
    const id = await newDeployment()
    await write(id, 0, 450)
    const seen: string[] = []
    for await (const { event, data } of follow(id)) {
      seen.push(event === 'log' ? (data.message ?? '') : event === 'status' ? (data.status ?? '') : event)
      if (seen.length === 451) {
        await put(id, { status: 'BUILDING' })
        await write(id, 450, 1)
      }
      if (data.message === 'line 450') await put(id, { status: 'FAILED', failureReason: 'no' })
    }
    expect(seen).toEqual([
      'PENDING',
      ...Array.from({ length: 450 }, (_, n) => `line ${n}`),
      'BUILDING',
      'line 450',
      'FAILED',
      'end',
    ])
  })

  test('come behind the state that they were written in, however close the two are (D85)', async () => {
    const id = await newDeployment()
    const followed = async () => {
      const seen: string[] = []
      for await (const { event, data } of follow(id)) {
        seen.push(event === 'log' ? (data.message ?? '') : (data.status ?? event))
        if (event === 'log') await put(id, { status: 'FAILED' })
      }
      return seen
    }
    const [seen] = await holding(
      platform.databaseUrl,
      async (held) => {
        await held`lock table build_logs in access exclusive mode`
        await held`update deployments set status = 'BUILDING' where id = ${id}`
        await held`insert into build_logs ${held({ deployment_id: id, id: randomUUID(), created_at: new Date(start), type: 'INFO', message: 'line' })}`
      },
      [followed],
    )
    expect(seen).toEqual(['BUILDING', 'line', 'FAILED', 'end'])
  })

  test('go on behind the last line that was received; nothing is left once the deployment has ended (D85)', async () => {
    const id = await newDeployment()
    const ids = await write(id, 0, 3)
    await put(id, { status: 'ACTIVE' })
    const events = await Array.fromAsync(follow(id, ids[0]))
    expect(events.map(({ event, id: eventId }) => [event, eventId])).toEqual([
      ['status', undefined],
      ['log', ids[1]],
      ['log', ids[2]],
      ['end', undefined],
    ])
    const stream = (lastEventId: string) =>
      platform.call(ana.token, `GET /deployments/${id}/logs/stream`, undefined, { 'last-event-id': lastEventId })
    expect((await stream(ids[2] ?? '')).status).toBe(204)
    expect((await stream(randomUUID())).status).toBe(422)
    expect((await stream('nonsense')).status).toBe(422)
  })
})

test('what is done to deployments stands in the activity of their application (A §6)', async () => {
  const owner = await newOwner(platform)
  const id = await newDeployment(owner)
  await step(id, 'cancel', undefined, owner)
  const answer = await fetch(`${platform.apiUrl}/applications/${owner.applicationId}/activity/stream`, {
    headers: { authorization: `Bearer ${owner.token}`, 'last-event-id': '0' },
  })
  let text = ''
  for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString()
    if (text.includes('deployment.cancelled')) break
  }
  expect(text).toMatch(/event: deployment\.created\n.*"type":"deployment","label":"app-/)
})
