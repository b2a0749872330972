import { randomUUID } from 'node:crypto'
import { CreateBucketCommand, GetObjectCommand, ListBucketsCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { one } from '@platform/runtime/database'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { decodeJwt } from 'jose'
import { and, eq, isNull } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  deploymentOf,
  environmentOf,
  newDeployment,
  newFunction,
  type TestFunction,
  untilEnded,
} from '../../../../test/deployments.ts'
import { exchange, newKey, newOwner, type Owner, storeObject, unique } from '../../../../test/scenario.ts'
import { bucketName, s3Client, sendSigned, startS3, statusOf, type TestS3 } from '../../../../test/s3.ts'
import { idempotentRequests } from '../../../http/idempotency-table.ts'
import { activities } from '../../tenancy/activity/table.ts'
import { recordActivity } from '../../tenancy/activity/record.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { failDeployment } from '../../deploy/deployments/transitions.ts'
import { openDeploymentSecrets, openDeploymentVariables } from '../../deploy/deployments/variables.ts'
import { createFunctionCredential, storeFunctionCredential } from './function-credential.ts'
import { apiKeys } from './table.ts'

let platform: TestPlatform
let s3: TestS3
let ana: Owner
/** One Function in each environment of Ana's application. */
let production: TestFunction
let preview: TestFunction
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  s3 = await startS3(platform)
  ana = await newOwner(platform)
  production = await newFunction(platform, ana)
  preview = await newFunction(platform, ana, 'preview')
})
afterAll(async () => {
  await s3.close()
  await platform.close()
})

const denied = { status: 403, body: { error: 'Access denied' } }
const environmentsPath = () => `/applications/${ana.applicationId}/environments`
const flat = (owner = ana) => `/applications/${owner.applicationId}/storage/buckets`
async function newBucket(environment: 'production' | 'preview'): Promise<{ id: string; name: string }> {
  const made = await platform.call(ana.token, `POST ${flat()}`, { name: bucketName(), environment })
  expect(made.status).toBe(201)
  return made.body as { id: string; name: string }
}
const namesOf = ({ body }: { body: { items: { name: string }[] } }) => body.items.map(({ name }) => name)
const live = (deploymentId: string) =>
  platform.api.db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.deploymentId, deploymentId), isNull(apiKeys.deletedAt)))

describe('a provisioned deployment', () => {
  async function deploy(owner = ana) {
    const { id } = await newDeployment(platform, owner, { archive: [{ name: 'index.html', content: unique() }] })
    expect((await untilEnded(platform, id)).status).toBe('ACTIVE')
    return id
  }

  test('has a credential, whose secret is nowhere but in its sealed variables (wire.md Injected, D9)', async () => {
    const owner = await newOwner(platform)
    const odd = '\n$(x) `y` "\'\\\u{1f600}\u0001 end '
    for (const key of ['PLAIN', '__proto__']) {
      const made = await platform.call(owner.token, `POST /applications/${owner.applicationId}/env-vars`, {
        key,
        value: odd,
        sensitive: true,
      })
      expect(made.status).toBe(201)
    }
    const id = await deploy(owner)
    const variables = await openDeploymentVariables(platform.api, id)
    expect(Object.entries(variables).toSorted(([a], [b]) => (a < b ? -1 : 1))).toEqual([
      ['PLAIN', odd],
      ['PLATFORM_APPLICATION_ID', owner.applicationId],
      ['PLATFORM_CLIENT_ID', expect.any(String)],
      ['PLATFORM_CLIENT_SECRET', expect.stringMatching(/^svc_secret_[\w-]{43}$/)],
      ['PLATFORM_DEPLOYMENT_ID', id],
      ['PLATFORM_ENVIRONMENT', 'production'],
      ['__proto__', odd],
    ])
    const { PLATFORM_CLIENT_ID: clientId = '', PLATFORM_CLIENT_SECRET: secret = '' } = variables
    expect((await openDeploymentSecrets(platform.api, id)).toSorted()).toEqual([odd, odd, secret].toSorted())
    const row = one(await live(id))
    expect(row).toMatchObject({ id: clientId, environmentId: (await environmentOf(platform, owner)).id })
    const kept = JSON.stringify([row, await deploymentOf(platform, id)])
    expect(kept).not.toContain(secret)
    // The API lists variables that people set, not the platform's.
    const shown = await platform.call(owner.token, `GET /deployments/${id}`)
    expect(shown.body.variables).toEqual(
      ['PLAIN', '__proto__'].map((key) => ({ key, source: 'application', digest: expect.any(String) as string })),
    )

    const answer = await exchange(platform, clientId, secret)
    expect(answer).toMatchObject({ status: 200, body: { expires_in: 300, token_type: 'Bearer' } })
    expect(decodeJwt(answer.body.access_token as string)).toMatchObject({
      sub: owner.applicationId,
      client_id: clientId,
      actor: 'function',
      deployment_id: id,
      environment_id: row.environmentId,
    })
  })

  test('provisioned again by a later attempt has the later credential alone', async () => {
    const deployment = await newDeployment(platform, ana, { status: 'PROVISIONING' })
    const [first, second] = await Promise.all([1, 2].map(() => createFunctionCredential(platform.api, deployment)))
    if (!first || !second) return expect.fail()
    for (const credential of [first, second])
      await platform.api.db.transaction((tx) => storeFunctionCredential(tx, platform.api.now(), credential))
    expect((await live(deployment.id)).map(({ id }) => id)).toEqual([second.clientId])
    expect((await exchange(platform, first.clientId, first.secret)).status).toBe(401)
    expect((await exchange(platform, second.clientId, second.secret)).status).toBe(200)
  })
})

describe('the credential ends with its deployment', () => {
  async function expectEnded(credential: TestFunction, put: () => Promise<number | undefined>) {
    expect(await live(credential.deploymentId)).toEqual([])
    const [row] = await platform.api.db.select().from(apiKeys).where(eq(apiKeys.id, credential.id))
    expect(row).toMatchObject({ signingState: null, signingKekId: null })
    expect(await exchange(platform, credential.id, credential.secret)).toMatchObject({
      status: 401,
      body: { error: 'invalid_token', error_description: 'The deployment of this credential has ended' },
    })
    // Signatures are refused at once; an issued token works until it expires, as with keys (D1).
    expect(await put()).toBe(403)
    expect((await platform.call(credential.token, `GET ${flat()}`)).status).toBe(200)
    await expect(platform.api.requireLiveKey(credential.id)).rejects.toMatchObject({ status: 401 })
    await expect(openDeploymentVariables(platform.api, credential.deploymentId)).rejects.toThrow(
      `Deployment ${credential.deploymentId} has no variables: it is not provisioned, has failed or was retired`,
    )
  }
  const client = (credential: TestFunction) => {
    const made = s3Client(s3, credential)
    onTestFinished(() => made.destroy())
    return made
  }

  test('when that is retired (D83)', async () => {
    const credential = await newFunction(platform, ana)
    const Bucket = bucketName()
    const signs = client(credential)
    expect(await statusOf(signs.send(new CreateBucketCommand({ Bucket })))).toBe(200)
    expect(await retireDeployment(platform.api, credential.deploymentId)).toBe(true)
    await expectEnded(credential, () => statusOf(signs.send(new PutObjectCommand({ Bucket, Key: 'a', Body: 'a' }))))
  })

  test('when that fails', async () => {
    const credential = await newFunction(platform, ana)
    const { deploymentId } = credential
    const { db } = platform.api
    await db.update(deployments).set({ status: 'PROVISIONING' }).where(eq(deployments.id, deploymentId))
    const signs = client(credential)
    const failed = await db.transaction((tx) =>
      failDeployment(tx, platform.api.now(), { id: deploymentId }, 'Cancelled', 'deployment.cancelled', {
        kind: 'platform',
      }),
    )
    expect(failed?.status).toBe('FAILED')
    await expectEnded(credential, () => statusOf(signs.send(new CreateBucketCommand({ Bucket: bucketName() }))))
  })
})

test('people neither see nor revoke it', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:read'])
  const listed = await platform.call(ana.token, `GET /api-keys?applicationId=${ana.applicationId}`)
  expect((listed.body.items as { id: string }[]).map(({ id }) => id)).toEqual([key.id])
  const revoked = await platform.call(ana.token, `DELETE /api-keys/${production.id}`)
  expect(revoked).toMatchObject({ status: 404, body: { error: 'API key not found' } })
  expect((await exchange(platform, production.id, production.secret)).status).toBe(200)
})

test('it has the scopes of D9 and none else, or fewer where fewer are asked for', async () => {
  const whole = await exchange(platform, production.id, production.secret)
  expect((whole.body.scope as string).split(' ').toSorted()).toEqual(
    [
      'network:ai_gateway:chat',
      'network:ai_gateway:models',
      'network:env_vars:read',
      'network:sticky_sessions:write',
      'network:storage:delete',
      'network:storage:read',
      'network:storage:write',
    ].toSorted(),
  )
  const narrow = await exchange(platform, production.id, production.secret, { scope: 'network:storage:read' })
  expect(narrow.body.scope).toBe('network:storage:read')
  const token = narrow.body.access_token as string
  expect((await platform.call(token, `GET ${flat()}`)).status).toBe(200)
  expect((await platform.call(token, `POST ${flat()}`, { name: bucketName() })).status).toBe(403)
  expect((await platform.call(token, `GET /applications/${ana.applicationId}/env-vars`)).status).toBe(403)
  const wide = await exchange(platform, production.id, production.secret, { scope: 'network:deployments:read' })
  expect(wide).toMatchObject({ status: 400, body: { error: 'invalid_scope' } })
})

test('a token of the platform that marks an actor it does not confine is refused', async () => {
  const claims = decodeJwt(production.token)
  const { api } = platform
  for (const odd of [{ actor: 'robot' }, { environment_id: undefined }, { deployment_id: 7 }]) {
    const token = api.keySet.sign('at+jwt', { ...claims, ...odd, jti: randomUUID() })
    expect((await platform.call(token, `GET ${flat()}`)).status).toBe(401)
  }
})

describe('its environment alone', () => {
  test('is what the flat form means, and another is denied by slug and UUID, by path, query and body', async () => {
    const [ofProduction, ofPreview] = await Promise.all([newBucket('production'), newBucket('preview')])
    for (const [mine, own, other, of] of [
      [production, ofProduction, ofPreview, 'preview'],
      [preview, ofPreview, ofProduction, 'production'],
    ] as const) {
      const otherId = (await environmentOf(platform, ana, of)).id
      const slug = of === 'preview' ? 'production' : 'preview'
      const { token } = mine
      for (const text of [`GET ${flat()}`, `GET ${environmentsPath()}/${slug}/storage/buckets`]) {
        const listed = namesOf(await platform.call(token, text))
        expect(listed).toContain(own.name)
        expect(listed).not.toContain(other.name)
      }
      for (const reference of [of, otherId, otherId.toUpperCase(), 'staging', randomUUID()]) {
        const attempts = [
          `GET ${environmentsPath()}/${reference}/storage/buckets`,
          `GET ${environmentsPath()}/${reference}/buckets/${other.name}`,
          `GET ${flat()}?environment=${reference}`,
          `GET ${flat()}/${other.name}?environment=${reference}`,
          `GET ${flat()}/${other.id}/objects?environment=${reference}`,
          `GET ${flat()}/${other.name}/trash?environment=${reference}`,
          `GET ${flat()}/${other.name}/uploads?environment=${reference}`,
          `GET /applications/${ana.applicationId}/env-vars/pull?environment=${reference}`,
        ]
        for (const text of attempts) expect([text, await platform.call(token, text)]).toMatchObject([text, denied])
        for (const body of [{ environment: reference }, { environmentId: reference }])
          expect(await platform.call(token, `POST ${flat()}`, { name: bucketName(), ...body })).toMatchObject(denied)
        const session = { key: 'a', contentLength: 1, checksumSha256: '0'.repeat(64) }
        const begun = `POST ${flat()}/${other.name}/uploads?environment=${reference}`
        expect(await platform.call(token, begun, session)).toMatchObject(denied)
      }
      // Addressed by its id alone, it is missing like any other child (D17).
      for (const text of ['', '/objects', '/trash', '/uploads'])
        expect([text, await platform.call(token, `GET ${flat()}/${other.id}${text}`)]).toMatchObject([
          text,
          { status: 404, body: { error: 'Bucket not found' } },
        ])
      expect((await platform.call(token, `DELETE ${flat()}/${other.id}?force=true`)).status).toBe(404)
      const made = await platform.call(token, `POST ${flat()}`, { name: bucketName() })
      expect(made).toMatchObject({ status: 201, body: { environment: slug } })
    }
  })

  test('holds for objects, their trash and their access URLs', async () => {
    const [own, other] = await Promise.all([newBucket('preview'), newBucket('production')])
    const mine = await storeObject(platform, own.id, 'a.txt', 'mine')
    const foreign = await storeObject(platform, other.id, 'a.txt', 'theirs')
    const at = (environment: string, id: string, more = '') =>
      `${environmentsPath()}/${environment}/objects/${id}${more}`
    const get = (path: string) => platform.call(preview.token, `GET ${path}`)
    expect((await get(at('preview', mine.id, '/access-url'))).status).toBe(200)
    expect(await get(at('production', foreign.id, '/access-url'))).toMatchObject(denied)
    expect((await get(at('preview', foreign.id, '/access-url'))).status).toBe(404)
    expect((await get(`${flat()}/${other.id}/objects/${foreign.id}`)).status).toBe(404)
    expect((await platform.call(preview.token, `DELETE ${at('preview', foreign.id)}`)).status).toBe(404)
    expect((await platform.call(preview.token, `DELETE ${at('preview', mine.id)}`)).status).toBe(204)
  })

  test('holds for variables: its own layer under the upper two, and nothing of the other', async () => {
    const owner = await newOwner(platform)
    const [inProduction, inPreview] = [
      await newFunction(platform, owner),
      await newFunction(platform, owner, 'preview'),
    ]
    const path = `/applications/${owner.applicationId}/env-vars`
    await platform.call(owner.token, `POST /organizations/${owner.organizationId}/env-vars`, {
      key: 'ALL',
      value: 'organization',
    })
    await platform.call(owner.token, `POST ${path}`, { key: 'BOTH', value: 'application' })
    for (const environment of ['production', 'preview'])
      await platform.call(owner.token, `POST ${path}`, { key: 'MODE', value: environment, environment })
    for (const [mine, slug] of [
      [inProduction, 'production'],
      [inPreview, 'preview'],
    ] as const) {
      const pulls = ['', `?environment=${slug}`, `?environment=${mine.environmentId}`]
      for (const query of pulls) {
        const { body } = await platform.call(mine.token, `GET ${path}/pull${query}`)
        expect(body).toEqual({
          items: [
            { key: 'ALL', value: 'organization', source: 'organization' },
            { key: 'BOTH', value: 'application', source: 'application' },
            { key: 'MODE', value: slug, source: 'environment' },
          ],
          total: 3,
          omittedSensitive: 0,
        })
      }
      const listed = await platform.call(mine.token, `GET ${path}`)
      expect((listed.body.items as { value: string }[]).map(({ value }) => value)).toEqual(['application', slug])
    }
    expect(await platform.call(inPreview.token, `GET /organizations/${owner.organizationId}/env-vars`)).toMatchObject(
      denied,
    )
  })

  describe.each(['signed', 'bearer'] as const)('over /s3, %s', (how) => {
    const spelled = (environment: 'production' | 'preview', name: string) =>
      environment === 'preview' ? `preview.${name}` : name
    async function ask(mine: TestFunction, method: string, path: string, headers: Record<string, string> = {}) {
      if (how === 'bearer') {
        const answer = await fetch(`${platform.apiUrl}/s3/${path}`, {
          method,
          headers: { authorization: `Bearer ${mine.token}`, ...headers },
          ...(method === 'PUT' && !headers['x-amz-copy-source'] && { body: 'x' }),
        })
        return { status: answer.status, text: await answer.text() }
      }
      return sendSigned(s3, { method, path: `/s3/${path}`, headers }, { key: mine })
    }

    test('other buckets are denied, there or not, and lists show its own', async () => {
      const [ofProduction, ofPreview] = await Promise.all([newBucket('production'), newBucket('preview')])
      for (const [bucket] of [[ofProduction], [ofPreview]] as const) await storeObject(platform, bucket.id, 'k', 'v')
      for (const [mine, of, own, other] of [
        [production, 'production', ofProduction.name, spelled('preview', ofPreview.name)],
        [preview, 'preview', spelled('preview', ofPreview.name), ofProduction.name],
      ] as const) {
        const absent = spelled(of === 'production' ? 'preview' : 'production', bucketName())
        expect((await ask(mine, 'GET', `${own}/k`)).status).toBe(200)
        for (const [method, path] of [
          ['GET', `${other}/k`],
          ['HEAD', `${other}/k`],
          ['PUT', `${other}/new`],
          ['DELETE', `${other}/k`],
          ['GET', `${other}?list-type=2`],
          ['POST', `${other}/new?uploads`],
          ['DELETE', other],
          ['GET', `${absent}/k`],
          ['PUT', absent],
          ['HEAD', absent],
        ] as const)
          expect([method, path, (await ask(mine, method, path)).status]).toEqual([method, path, 403])
        for (const source of [`${other}/k`, `${absent}/k`])
          expect([
            source,
            (await ask(mine, 'PUT', `${own}/copy`, { 'x-amz-copy-source': `/${source}` })).status,
          ]).toEqual([source, 403])
        const within = await ask(mine, 'PUT', `${own}/copy`, { 'x-amz-copy-source': `/${own}/k` })
        expect([within.text, within.status]).toEqual([within.text, 200])
        const list = (await ask(mine, 'GET', '')).text
        expect(list).toContain(`<Name>${own}</Name>`)
        expect(list).not.toContain(other)
      }
    })
  })

  test('holds for the SDK, which lists and creates there', async () => {
    const client = s3Client(s3, preview)
    onTestFinished(() => client.destroy())
    const Bucket = `preview.${bucketName()}`
    await client.send(new CreateBucketCommand({ Bucket }))
    await client.send(new PutObjectCommand({ Bucket, Key: 'a', Body: 'text' }))
    expect(await (await client.send(new GetObjectCommand({ Bucket, Key: 'a' }))).Body?.transformToString()).toBe('text')
    const { Buckets = [] } = await client.send(new ListBucketsCommand({}))
    expect(Buckets.map(({ Name }) => Name)).toContain(Bucket)
    expect(Buckets.filter(({ Name }) => !Name?.startsWith('preview.'))).toEqual([])
    expect(await statusOf(client.send(new CreateBucketCommand({ Bucket: bucketName() })))).toBe(403)
  })

  test('holds for forms', async () => {
    const [own, other] = await Promise.all([newBucket('preview'), newBucket('production')])
    const client = s3Client(s3, preview)
    onTestFinished(() => client.destroy())
    const statuses = []
    for (const Bucket of [`preview.${own.name}`, other.name, bucketName()]) {
      const { fields } = await createPresignedPost(client, { Bucket, Key: 'form.txt' })
      const form = new FormData()
      for (const [name, value] of Object.entries(fields)) form.set(name, value)
      form.set('file', new Blob(['text']))
      statuses.push((await fetch(`${s3.url}/${Bucket}`, { method: 'POST', body: form })).status)
    }
    expect(statuses).toEqual([204, 403, 403])
  })

  test('holds for resumable uploads, and parts are put together within it', async () => {
    const [own, other] = await Promise.all([newBucket('preview'), newBucket('production')])
    const metadata = (headers: Record<string, string>) =>
      Object.entries(headers)
        .map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
        .join(',')
    const post = async (token: string, headers: Record<string, string>, body?: string) => {
      const answer = await fetch(`${platform.apiUrl}/files`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'tus-resumable': '1.0.0', ...headers },
        ...(body !== undefined && { body }),
      })
      return { status: answer.status, location: answer.headers.get('location') ?? '' }
    }
    const begin = (token: string, headers: Record<string, string>) =>
      post(token, { 'upload-length': '1', 'upload-metadata': metadata({ key: 'k', ...headers }) })
    expect((await begin(preview.token, { bucket: own.name })).status).toBe(201)
    expect((await begin(preview.token, { bucket: own.name, environment: 'preview' })).status).toBe(201)
    expect((await begin(preview.token, { bucket: other.name, environment: 'production' })).status).toBe(403)
    expect((await begin(preview.token, { bucket: other.name })).status).toBe(404)
    expect((await begin(preview.token, { bucket: other.id })).status).toBe(404)
    // A partial upload belongs to no bucket: only its creator may use it.
    const parts = []
    for (const { token } of [preview, production]) {
      const headers = {
        'upload-length': '1',
        'upload-concat': 'partial',
        'content-type': 'application/offset+octet-stream',
      }
      const part = await post(token, headers, 'x')
      expect(part.status).toBe(201)
      parts.push(part.location)
    }
    const [mine = '', theirs = ''] = parts
    const whole = (urls: string[]) =>
      post(preview.token, {
        'upload-concat': `final;${urls.join(' ')}`,
        'upload-metadata': metadata({ bucket: own.name, key: 'whole' }),
      })
    expect((await whole([mine, theirs])).status).toBe(403)
    expect((await whole([mine])).status).toBe(201)
  })
})

test('another application is out of its reach, and so is everything that is not in its scopes (D17)', async () => {
  const ben = await newOwner(platform)
  for (const path of ['storage/buckets', 'env-vars', 'env-vars/pull', 'environments/production/storage/buckets']) {
    expect(await platform.call(production.token, `GET /applications/${ben.applicationId}/${path}`)).toMatchObject(
      denied,
    )
    expect(await platform.call(production.token, `GET /applications/${randomUUID()}/${path}`)).toMatchObject({
      status: 404,
      body: { error: 'Application not found' },
    })
  }
  for (const text of [
    'GET /applications',
    'GET /organizations',
    'GET /deployments',
    `GET /deployments/${production.deploymentId}`,
    `GET /applications/${ana.applicationId}/requests`,
    `GET /applications/${ana.applicationId}/activity/stream`,
  ])
    expect([text, (await platform.call(production.token, text)).status]).toEqual([text, 403])
  expect(
    (await platform.call(production.token, 'POST /deployments', { applicationId: ana.applicationId })).status,
  ).toBe(403)
})

test('what it does is recorded as of the Function', async () => {
  const { db, now } = platform.api
  const actor = {
    kind: 'function' as const,
    keyId: production.id,
    applicationId: ana.applicationId,
    deploymentId: production.deploymentId,
    environmentId: production.environmentId,
    scopes: new Set<string>(),
  }
  const subject = { type: 'variable', id: randomUUID() }
  await db.transaction((tx) =>
    recordActivity(tx, now(), { applicationId: ana.applicationId, type: 'variable.updated', by: actor, subject }),
  )
  const [activity] = await db.select().from(activities).where(eq(activities.type, 'variable.updated'))
  expect(activity?.actor).toEqual({ type: 'function', id: production.deploymentId })

  const key = randomUUID()
  const create = () =>
    platform.call(production.token, `POST ${flat()}`, { name: 'once-only' }, { 'idempotency-key': key })
  const first = await create()
  const second = await create()
  expect([first.status, second.body]).toEqual([201, first.body])
  const [stored] = await db.select().from(idempotentRequests).where(eq(idempotentRequests.key, key))
  expect(stored?.callerId).toBe(`function:${production.id}`)
})

test('its requests are counted on its client id: 3,000 in 60 s', async () => {
  const spender = await newFunction(platform, ana)
  await Promise.all(Array.from({ length: 2_999 }, () => platform.api.limiter.hit([`key:${spender.id}`])))
  // Each from its own address, so that no other limit is hit.
  const statuses = []
  for (const last of [1, 2])
    statuses.push(
      (await platform.call(spender.token, `GET ${flat()}`, undefined, { 'x-forwarded-for': `198.19.77.${last}` }))
        .status,
    )
  expect(statuses).toEqual([200, 429])
})
