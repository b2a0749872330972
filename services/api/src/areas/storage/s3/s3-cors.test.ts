// engines: s3
import { randomUUID } from 'node:crypto'
import { CreateBucketCommand, GetObjectCommand, PutBucketCorsCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import type { PreparedQueryConfig } from 'drizzle-orm/pg-core'
import { PostgresJsPreparedQuery } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import {
  bucketName,
  newS3User,
  type S3Answer,
  type S3Request,
  type S3User,
  sendRaw,
  sendSigned,
  startS3,
  type TestS3,
} from '../../../../test/s3.ts'
import { newKey } from '../../../../test/scenario.ts'
import { apiKeys } from '../../credentials/api-keys/table.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { buckets } from '../objects/table.ts'
import { bucketConfigurations } from './table.ts'

/** An origin of the operator's, one that a bucket's rule allows, and one that nobody allows. */
const LISTED = 'https://console.example.com'
const APP = 'https://app.example.org'
const OTHER = 'https://other.example.net'

let platform: TestPlatform
let s3: TestS3
let root: TestS3
let ana: S3User
/** Buckets with rules, without rules, and public with rules. */
let ruled: string
let plain: string
let open: string
let slug: string

const CORSRules = [
  {
    AllowedOrigins: [APP],
    AllowedMethods: ['GET', 'PUT', 'POST'],
    AllowedHeaders: ['content-type', 'x-amz-*', 'authorization'],
    ExposeHeaders: ['ETag'],
    MaxAgeSeconds: 600,
  },
]

async function newBucket(ACL?: 'public-read'): Promise<string> {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket, ...(ACL && { ACL }) }))
  await ana.client.send(new PutObjectCommand({ Bucket, Key: 'key', Body: 'hello' }))
  return Bucket
}
const allow = (Bucket: string, rules = CORSRules) =>
  ana.client.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules: rules } }))

beforeAll(async () => {
  platform = await startPlatform({ corsOrigins: [LISTED], s3Domain: 's3.localhost' })
  s3 = await startS3(platform)
  root = await startS3(platform, 'root')
  ana = await newS3User(s3)
  ruled = await newBucket()
  plain = await newBucket()
  open = await newBucket('public-read')
  const [row] = await platform.api.db.select().from(buckets).where(eq(buckets.name, open))
  slug = row?.slug ?? ''
  await allow(ruled)
  await allow(open)
})
afterAll(async () => {
  await s3.close()
  await root.close()
  await platform.close()
})

/** An answer's CORS headers. */
const corsOf = ({ headers }: S3Answer) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')))

const send = (options: S3Request, origin?: string, headers: Record<string, string> = {}) =>
  sendSigned(s3, { ...options, headers: { ...options.headers, ...(origin && { origin }), ...headers } }, ana)
const preflight = (path: string, origin: string, method: string, headers?: string, to: { host: string } = s3) =>
  sendRaw(to, {
    method: 'OPTIONS',
    path,
    headers: {
      origin,
      'access-control-request-method': method,
      ...(headers !== undefined && { 'access-control-request-headers': headers }),
    },
  })
const presigned = async (Bucket: string, method: 'GET' | 'PUT' = 'GET'): Promise<string> => {
  const Key = 'key'
  const command = method === 'GET' ? new GetObjectCommand({ Bucket, Key }) : new PutObjectCommand({ Bucket, Key })
  const url = new URL(await getSignedUrl(ana.client, command))
  return `${url.pathname}${url.search}`
}

const byRule = {
  'access-control-allow-origin': APP,
  'access-control-allow-credentials': 'true',
  'access-control-allow-methods': 'GET, PUT, POST',
  'access-control-expose-headers': 'ETag',
  'access-control-max-age': '600',
}

test('an answer is readable by pages that a rule of the bucket allows, and by no others', async () => {
  const get = { path: `/s3/${ruled}/key` }
  const answer = await send(get, APP)
  expect(answer).toMatchObject({ status: 200, text: 'hello' })
  expect(corsOf(answer)).toEqual(byRule)
  expect(answer.headers['vary']).toBe('Origin, Access-Control-Request-Headers, Access-Control-Request-Method')
  // Errors too, or a page could not learn the reason.
  expect(corsOf(await send({ path: `/s3/${ruled}/none` }, APP))).toEqual(byRule)
  expect(corsOf(await send({ ...get, method: 'DELETE' }, APP))).toEqual({})
  expect(corsOf(await send({ path: `/s3/${plain}/key` }, APP))).toEqual({})
  const unread = await send({ path: `/s3/${ruled}/none` }, OTHER)
  expect([corsOf(unread), unread.headers['vary']]).toEqual([{}, 'Origin'])
  const none = await send({ path: `/s3/${ruled}/none` })
  expect([corsOf(none), none.headers['vary']]).toEqual([{}, 'Origin'])
})

test('the operator’s origins may read every bucket; a rule that allows them says how', async () => {
  for (const Bucket of [plain, ruled])
    expect(corsOf(await send({ path: `/s3/${Bucket}/key` }, LISTED))).toEqual({
      'access-control-allow-origin': LISTED,
      'access-control-expose-headers': expect.stringContaining('x-amz-checksum-crc32') as string,
    })
  expect(corsOf(await preflight(`/s3/${ruled}/key`, LISTED, 'PUT', 'x'))).toMatchObject({
    'access-control-allow-origin': LISTED,
    'access-control-allow-headers': '*, Authorization',
  })
  const Bucket = await newBucket()
  await allow(Bucket, [{ ...CORSRules[0], AllowedOrigins: ['*'], ExposeHeaders: [] } as (typeof CORSRules)[0]])
  expect(corsOf(await send({ path: `/s3/${Bucket}/key` }, LISTED))).toEqual({
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET, PUT, POST',
    'access-control-max-age': '600',
  })
})

test('rules hold from the answer that set them to the one that deletes them', async () => {
  const Bucket = await newBucket()
  const read = async () => corsOf(await send({ path: `/s3/${Bucket}/key` }, APP))
  expect(await read()).toEqual({})
  await allow(Bucket)
  expect(await read()).toEqual(byRule)
  await send({ method: 'DELETE', path: `/s3/${Bucket}?cors` })
  expect(await read()).toEqual({})
})

test('rules that are replaced while they are looked up do not hold for the next request', async () => {
  const Bucket = await newBucket()
  const get = { path: `/s3/${Bucket}/key` }
  await allow(Bucket)
  const hasRead = Promise.withResolvers<void>()
  const isHeld = Promise.withResolvers<void>()
  const { execute } = PostgresJsPreparedQuery.prototype
  const slow = vi.spyOn(PostgresJsPreparedQuery.prototype, 'execute').mockImplementation(async function (
    this: PostgresJsPreparedQuery<PreparedQueryConfig>,
    values,
  ) {
    const rows: unknown = await execute.call(this, values)
    if (this.getQuery().sql.startsWith('select "cors" from')) {
      hasRead.resolve()
      await isHeld.promise
    }
    return rows
  })
  onTestFinished(() => slow.mockRestore())
  const before = send(get, APP)
  await hasRead.promise
  await allow(
    Bucket,
    CORSRules.map((rule) => ({ ...rule, AllowedOrigins: [OTHER] })),
  )
  isHeld.resolve()
  expect(corsOf(await before)).toEqual(byRule)
  expect(corsOf(await send(get, APP))).toEqual({})
})

test('a bucket follows rules that another process has set', async () => {
  const Bucket = await newBucket()
  const read = async () => corsOf(await send({ path: `/s3/${Bucket}/key` }, APP))
  expect(await read()).toEqual({})
  const [row] = await platform.api.db.select().from(buckets).where(eq(buckets.name, Bucket))
  const [from] = await platform.api.db.select().from(buckets).where(eq(buckets.name, ruled))
  const [rules] = await platform.api.db
    .select()
    .from(bucketConfigurations)
    .where(eq(bucketConfigurations.bucketId, from?.id ?? ''))
  await platform.api.db
    .insert(bucketConfigurations)
    .values({ bucketId: row?.id ?? '', cors: rules?.cors ?? null, updatedAt: platform.clock.now() })
  await vi.waitFor(async () => expect(await read()).toEqual(byRule), { timeout: 60_000, interval: 200 })
})

test('a preflight of a presigned URL gets the headers of the rule that allows it', async () => {
  const put = await preflight(await presigned(ruled, 'PUT'), APP, 'PUT', 'content-type, X-Amz-Meta-One')
  expect(put).toMatchObject({ status: 200, text: '' })
  expect(corsOf(put)).toEqual({ ...byRule, 'access-control-allow-headers': 'content-type, X-Amz-Meta-One' })
  const get = await preflight(await presigned(ruled), APP, 'GET')
  expect([get.status, corsOf(get)]).toEqual([200, byRule])
  for (const refused of [
    await preflight(await presigned(ruled, 'PUT'), OTHER, 'PUT'),
    await preflight(await presigned(ruled, 'PUT'), APP, 'DELETE'),
    await preflight(await presigned(ruled, 'PUT'), APP, 'PUT', 'x-other'),
  ]) {
    expect(refused.status).toBe(204)
    expect(corsOf(refused)).not.toHaveProperty('access-control-allow-origin')
  }
})

test('a URL that a Function presigned leads to buckets of its own environment alone (D9)', async () => {
  const { db } = platform.api
  const all = await db.select().from(environments).where(eq(environments.applicationId, ana.owner.applicationId))
  const allowedIn = async (slug: string) => {
    const environmentId = all.find((environment) => environment.slug === slug)?.id ?? null
    const key = await newKey(platform, ana.owner, ['network:storage:read'])
    const ofFunction = { deploymentId: randomUUID(), environmentId, createdByUserId: null }
    await db.update(apiKeys).set(ofFunction).where(eq(apiKeys.id, key.id))
    const answer = await preflight((await presigned(ruled)).replace(ana.key.id, key.id), APP, 'GET')
    return 'access-control-allow-origin' in answer.headers
  }
  expect([await allowedIn('production'), await allowedIn('preview')]).toEqual([true, false])
})

test('buckets as hosts are told apart in preflights', async () => {
  const url = new URL(await getSignedUrl(ana.client, new GetObjectCommand({ Bucket: ruled, Key: 'key' })))
  const ask = (bucket: string) =>
    sendRaw(root, {
      method: 'OPTIONS',
      path: `/key${url.search}`,
      headers: { host: `${bucket}.s3.localhost`, origin: APP, 'access-control-request-method': 'GET' },
    })
  expect(corsOf(await ask(ruled))).toEqual(byRule)
  expect(corsOf(await ask(plain))).not.toHaveProperty('access-control-allow-origin')
})

test('a preflight does not tell whether a bucket exists', async () => {
  const eve = await newS3User(s3)
  const of = async (Bucket: string, origin: string, { key } = ana) => {
    const path = (await presigned(ruled)).replace(ruled, Bucket).replace(ana.key.id, key.id)
    const { status, headers } = await preflight(path, origin, 'PUT')
    const { date: _date, 'x-request-id': _id, ...rest } = headers
    return { status, rest }
  }
  const missing = await of(bucketName(), APP)
  expect(missing.rest).not.toHaveProperty('access-control-allow-origin')
  // No rules, rules for others, another organization's bucket, names that no bucket has, and an invalid key id.
  expect(await of(plain, APP)).toEqual(missing)
  expect(await of(ruled, OTHER)).toEqual(missing)
  expect(await of(ruled, APP, eve)).toEqual(missing)
  expect(await of('UPPER', APP)).toEqual(missing)
  const nobody = { ...ana, key: { ...ana.key, id: 'nobody' } }
  expect(await of(ruled, APP, nobody)).toEqual(missing)

  const anonymous = async (path: string, method: string, headers?: string) => {
    const { status, headers: answered } = await preflight(path, APP, method, headers)
    const { date: _date, 'x-request-id': _id, ...rest } = answered
    return { status, rest }
  }
  for (const headers of [undefined, 'authorization'])
    expect(await anonymous(`/s3/${ruled}/key`, 'PUT', headers)).toEqual(
      await anonymous(`/s3/${bucketName()}/key`, 'PUT', headers),
    )
})

test('pages of public buckets are asked for by slug, and read by the rules', async () => {
  expect(corsOf(await preflight(`/s3/${slug}/key`, APP, 'GET', 'x-amz-one'))).toEqual({
    ...byRule,
    'access-control-allow-headers': 'x-amz-one',
  })
  const refused = await preflight(`/s3/${slug}/key`, OTHER, 'GET', 'x-amz-one')
  expect(corsOf(refused)).not.toHaveProperty('access-control-allow-origin')
  const answer = await sendRaw(s3, { path: `/s3/${slug}/key`, headers: { origin: APP } })
  expect(answer).toMatchObject({ status: 200, text: 'hello' })
  expect(corsOf(answer)).toEqual(byRule)
})

test('whoever announces a credential is let through, and held to the rules when it arrives', async () => {
  const path = `/s3/${ruled}/by-header`
  const options = await preflight(path, OTHER, 'PUT', 'authorization, x-amz-date')
  expect(options.status).toBe(204)
  expect(corsOf(options)).toEqual({
    'access-control-allow-origin': OTHER,
    'access-control-allow-methods': 'GET, HEAD, PUT, POST, DELETE',
    'access-control-allow-headers': '*, Authorization',
    'access-control-max-age': '7200',
  })
  const browser = { 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'cross-site' }
  const put = (origin: string, headers = {}) => send({ method: 'PUT', path, body: 'x' }, origin, headers)
  const refused = await put(OTHER, browser)
  expect(refused).toMatchObject({ status: 403, code: 'AccessForbidden' })
  expect(corsOf(refused)).toEqual({})
  const created = bucketName()
  expect(await send({ method: 'PUT', path: `/s3/${created}` }, OTHER, browser)).toMatchObject({
    code: 'AccessForbidden',
  })
  expect(await send({ path: `/s3/${created}` })).toMatchObject({ code: 'NoSuchBucket' })
  expect((await send({ path })).status).toBe(404)

  const taken = await put(APP, browser)
  expect([taken.status, corsOf(taken)]).toEqual([200, byRule])
  expect((await put(LISTED, browser)).status).toBe(200)
  // Only browsers enforce CORS, so other programs are not refused.
  expect((await put(OTHER)).status).toBe(200)
  expect((await put(OTHER, { ...browser, 'sec-fetch-site': 'same-origin' })).status).toBe(200)
})

test('a form is let through, and its answer readable by the rules', async () => {
  expect(corsOf(await preflight(`/s3/${ruled}`, APP, 'POST'))).toMatchObject({ 'access-control-allow-origin': APP })
  const { url, fields } = await createPresignedPost(ana.client, { Bucket: ruled, Key: 'posted' })
  const post = (origin: string) => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, value)
    form.append('file', new File(['x'], 'a.txt'))
    return fetch(url, { method: 'POST', body: form, headers: { origin } })
  }
  const answer = await post(APP)
  expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([204, APP])
  expect(answer.headers.get('access-control-expose-headers')).toBe('ETag')
  expect((await post(OTHER)).headers.get('access-control-allow-origin')).toBeNull()
})

test('without an Origin header no rule is looked up', async () => {
  const Bucket = await newBucket()
  const sql = postgres(platform.databaseUrl, { max: 1, onnotice: () => {} })
  await sql.begin(async (held) => {
    await held`lock table bucket_configurations in access exclusive mode`
    expect(await send({ path: `/s3/${Bucket}/key` })).toMatchObject({ status: 200, text: 'hello' })
    expect((await preflight(`/s3/${Bucket}/key`, APP, 'PUT', 'authorization')).status).toBe(204)
  })
  await sql.end()
})

test('an OPTIONS request without Origin or Access-Control-Request-Method is BadRequest and is counted', async () => {
  const options = (headers: Record<string, string>, path = `/s3/${slug}/key`) =>
    sendRaw(s3, { method: 'OPTIONS', path, headers })
  const refused = { status: 400, code: 'BadRequest' }
  for (const path of [`/s3/${slug}/key`, `/s3/${bucketName()}`, '/s3', await presigned(ruled)])
    expect(await options({ 'access-control-request-method': 'GET' }, path)).toMatchObject({
      ...refused,
      text: expect.stringContaining('Insufficient information. Origin request header needed.') as string,
    })
  expect(await options({ origin: APP })).toMatchObject({
    ...refused,
    text: expect.stringContaining('Invalid Access-Control-Request-Method: null') as string,
  })
  await platform.api.limiter.hit(Array.from({ length: 24_000 }, () => 'objects:203.0.113.79'))
  expect(await options({ 'x-forwarded-for': '203.0.113.79', authorization: 'Bearer x' })).toMatchObject({ status: 429 })
})

test('preflights count on the address, whatever they ask for', async () => {
  await platform.api.limiter.hit(Array.from({ length: 24_000 }, () => 'objects:203.0.113.78'))
  const answer = await sendRaw(s3, {
    method: 'OPTIONS',
    path: await presigned(ruled),
    headers: { origin: APP, 'access-control-request-method': 'GET', 'x-forwarded-for': '203.0.113.78' },
  })
  expect(answer).toMatchObject({ status: 429, code: 'SlowDown' })
})
