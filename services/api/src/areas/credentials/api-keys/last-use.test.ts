// engines: postgres
import { CreateBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { newFunction } from '../../../../test/deployments.ts'
import { exchange, newKey, newOwner, type Owner, tokenOf } from '../../../../test/scenario.ts'
import { bucketName, s3Client, sendSigned, startS3, storageScopes, type TestS3 } from '../../../../test/s3.ts'
import { apiKeys } from './table.ts'

const DAY = 86_400_000
let platform: TestPlatform
let s3: TestS3
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  s3 = await startS3(platform)
  ana = await newOwner(platform)
  await platform.api.db.execute(sql`create table key_writes (id uuid)`)
  await platform.api.db.execute(sql`
    create function note_write() returns trigger language plpgsql as $$
    begin
      insert into key_writes values (new.id);
      return new;
    end $$`)
  await platform.api.db.execute(
    sql`create trigger note_write after update on api_keys for each row execute function note_write()`,
  )
})
beforeEach(async () => {
  ana.token = await ana.person.token(['platform:api_keys:read', 'platform:api_keys:write', ...storageScopes])
})
afterAll(async () => {
  await s3.close()
  await platform.close()
})

interface MadeKey {
  id: string
  secret: string
}
const makeKey = async (scopes = storageScopes): Promise<MadeKey> =>
  (await platform.call(ana.token, 'POST /api-keys', { name: 'k', applicationId: ana.applicationId, scopes }))
    .body as MadeKey
const shownOf = async (id: string): Promise<Record<string, unknown> | undefined> => {
  const { body } = await platform.call(ana.token, `GET /api-keys?applicationId=${ana.applicationId}`)
  return (body.items as { id: string }[]).find((each) => each.id === id)
}
const writesOf = async (id: string): Promise<number> =>
  (await platform.api.db.execute(sql`select from key_writes where id = ${id}`)).length
/** The beginning of today, as the API says it. */
const today = (): string => `${platform.clock.now().toISOString().slice(0, 10)}T00:00:00.000Z`

test('a key says who made it, and that it was never used', async () => {
  const made = await platform.call(ana.token, 'POST /api-keys', {
    name: 'k',
    applicationId: ana.applicationId,
    scopes: storageScopes,
  })
  expect(made.body).toMatchObject({ createdByUserId: ana.person.userId, lastUsedAt: null })
  expect(await shownOf(made.body.id as string)).toMatchObject({
    createdByUserId: ana.person.userId,
    lastUsedAt: null,
  })
})

test('a key that is used 1,000 times in a day is written once, and again on the next', async () => {
  const key = await makeKey()
  const before = await shownOf(key.id)
  for (let uses = 0; uses < 1_000; uses += 50)
    await Promise.all(Array.from({ length: 50 }, () => tokenOf(platform, key.id, key.secret)))
  expect(await writesOf(key.id)).toBe(1)
  expect(await shownOf(key.id)).toEqual({ ...before, lastUsedAt: today() })

  platform.clock.advance(DAY)
  onTestFinished(() => platform.clock.advance(-DAY))
  ana.token = await ana.person.token(['platform:api_keys:read'])
  await exchange(platform, key.id, key.secret)
  await exchange(platform, key.id, key.secret)
  expect(await writesOf(key.id)).toBe(2)
  expect(await shownOf(key.id)).toMatchObject({ lastUsedAt: today() })
})

test('one of five first uses of a day that wait for the same row writes', async () => {
  const key = await makeKey()
  const racers = Array.from({ length: 5 }, () => () => exchange(platform, key.id, key.secret))
  const answers = await holding(
    platform.databaseUrl,
    (held) => held`select from api_keys where id = ${key.id} for update`,
    racers,
  )
  expect(answers.map(({ status }) => status)).toEqual(racers.map(() => 200))
  expect(await writesOf(key.id)).toBe(1)
})

test('a signature at /s3 is a use of its key, in a header and in the policy of a form', async () => {
  const [signer, poster] = [await makeKey(), await makeKey()]
  const Bucket = bucketName()
  const client = s3Client(s3, signer)
  await client.send(new CreateBucketCommand({ Bucket }))
  await client.send(new ListObjectsV2Command({ Bucket }))
  expect(await shownOf(signer.id)).toMatchObject({ lastUsedAt: today() })
  expect(await writesOf(signer.id)).toBe(1)

  const { url, fields } = await createPresignedPost(s3Client(s3, poster), { Bucket, Key: 'k' })
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  form.set('file', new Blob(['hello']))
  expect((await fetch(url, { method: 'POST', body: form })).status).toBe(204)
  expect(await shownOf(poster.id)).toMatchObject({ lastUsedAt: today() })
  expect(await writesOf(poster.id)).toBe(1)
})

test('a client without the secret of a key uses it neither by exchange nor by signature', async () => {
  const key = await makeKey()
  expect((await exchange(platform, key.id, `${key.secret}x`)).status).toBe(401)
  const forged = { key: { id: key.id, secret: `${key.secret}x` } }
  expect((await sendSigned(s3, { path: '/s3/' }, forged)).status).toBe(403)
  expect(await shownOf(key.id)).toMatchObject({ lastUsedAt: null })
})

test("the use of a Function's credential is never kept, by exchange nor at /s3", async () => {
  const { id, secret } = await newFunction(platform, ana)
  expect((await exchange(platform, id, secret)).status).toBe(200)
  await expect(s3Client(s3, { id, secret }).send(new ListObjectsV2Command({ Bucket: bucketName() }))).rejects.toThrow(
    'The bucket does not exist',
  )
  const rows = await platform.api.db.select().from(apiKeys).where(eq(apiKeys.id, id))
  expect(rows).toMatchObject([{ lastUsedAt: null }])
  expect(await writesOf(id)).toBe(0)
})

test('a database that takes no writes refuses no exchange', async () => {
  const { db } = platform.api
  await db.execute(sql`
    create function refuse() returns trigger language plpgsql as $$
    begin
      raise 'no space left on device';
    end $$`)
  await db.execute(sql`create trigger refused before update on api_keys for each row execute function refuse()`)
  onTestFinished(async () => void (await db.execute(sql`drop trigger refused on api_keys`)))
  const { id, secret } = await newKey(platform, ana, storageScopes)
  expect((await exchange(platform, id, secret)).status).toBe(200)
  expect(await shownOf(id)).toMatchObject({ lastUsedAt: null })
})
