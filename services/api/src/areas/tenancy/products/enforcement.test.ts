import { randomUUID } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  PutObjectTaggingCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketName, newS3User, startS3, type TestS3 } from '../../../../test/s3.ts'
import { newOwner } from '../../../../test/scenario.ts'
import { sumStoredBytes } from '../../storage/objects/stored-bytes.ts'
import { setEntitlement } from './products.ts'
import { setQuota } from './quotas.ts'

let platform: TestPlatform
let s3: TestS3
beforeAll(async () => {
  platform = await startPlatform()
  s3 = await startS3(platform)
})
afterAll(async () => {
  await s3.close()
  await platform.close()
})

const noStorage = 'The organization has no access to the product storage'

test.each(['SUSPENDED', 'REVOKED'] as const)(
  'an organization whose access to network is %s creates no application, and reads on (D91)',
  async (status) => {
    const owner = await newOwner(platform)
    const create = () =>
      platform.call(owner.token, 'POST /applications', {
        organizationId: owner.organizationId,
        name: `A ${randomUUID()}`,
      })
    await setEntitlement(platform.api, owner.organizationId, 'network', status)
    expect(await create()).toMatchObject({
      status: 403,
      body: { error: 'The organization has no access to the product network' },
    })
    // Storage is not affected.
    const path = `/applications/${owner.applicationId}/storage/buckets`
    expect((await platform.call(owner.token, `POST ${path}`, { name: bucketName() })).status).toBe(201)
    const list = await platform.call(owner.token, `GET /applications?organizationId=${owner.organizationId}`)
    expect([list.status, list.body.total]).toEqual([200, 1])
    // Strangers do not learn of it.
    const stranger = await newOwner(platform)
    expect(
      await platform.call(stranger.token, 'POST /applications', { organizationId: owner.organizationId, name: 'X' }),
    ).toMatchObject({ status: 404 })
    await setEntitlement(platform.api, owner.organizationId, 'network', 'ACTIVE')
    expect((await create()).status).toBe(201)
  },
)

/** The outcome of an SDK command: the status, and the message if it was refused. */
const outcome = (sent: Promise<unknown>): Promise<[status: number, message?: string]> =>
  sent.then(
    () => [200],
    (error: Error & { $metadata?: { httpStatusCode?: number } }) => [
      error.$metadata?.httpStatusCode ?? 0,
      error.message,
    ],
  )

/** A user with a bucket that holds `kept`, and every interface through which they can write. */
async function openDoors() {
  const user = await newS3User(s3)
  const { owner, client } = user
  const Bucket = bucketName()
  await client.send(new CreateBucketCommand({ Bucket }))
  await client.send(new PutObjectCommand({ Bucket, Key: 'kept', Body: 'content' }))
  const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: 'parts' }))
  const form = await createPresignedPost(client, { Bucket, Key: 'form' })
  const sendForm = () => {
    const body = new FormData()
    for (const [name, value] of Object.entries(form.fields)) body.set(name, value)
    body.set('file', new Blob(['x']))
    return fetch(form.url, { method: 'POST', body })
  }
  const environment = `/applications/${owner.applicationId}/environments/production`
  const newSession = () =>
    platform.call(owner.token, `POST ${environment}/buckets/${Bucket}/uploads`, {
      key: 'session',
      contentLength: 3,
      checksumSha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    })
  const begun = await newSession()
  const append = () =>
    fetch(begun.body.upload.url as string, {
      method: 'PATCH',
      headers: begun.body.upload.headers as Record<string, string>,
      body: 'abc',
    })
  const beginTus = () => {
    const encode = (text: string) => Buffer.from(text).toString('base64')
    const metadata = { applicationId: owner.applicationId, bucket: Bucket, key: 'tus' }
    return fetch(`${platform.apiUrl}/files`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${owner.token}`,
        'tus-resumable': '1.0.0',
        'upload-length': '3',
        'upload-metadata': Object.entries(metadata)
          .map(([name, value]) => `${name} ${encode(value)}`)
          .join(','),
      },
    })
  }
  const withBearer = (name: string) =>
    fetch(`${s3.url}/${name}`, { method: 'PUT', headers: { authorization: `Bearer ${user.key.token}` }, body: 'x' })
  const writes = {
    bucket: () => client.send(new CreateBucketCommand({ Bucket: bucketName() })),
    object: () => client.send(new PutObjectCommand({ Bucket, Key: 'new', Body: 'x' })),
    copy: () => client.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource: `${Bucket}/kept` })),
    tags: () =>
      client.send(
        new PutObjectTaggingCommand({ Bucket, Key: 'kept', Tagging: { TagSet: [{ Key: 'a', Value: 'b' }] } }),
      ),
    upload: () => client.send(new CreateMultipartUploadCommand({ Bucket, Key: 'more' })),
    part: () => client.send(new UploadPartCommand({ Bucket, Key: 'parts', UploadId, PartNumber: 1, Body: 'x' })),
  }
  return { ...user, Bucket, UploadId, environment, newSession, append, sendForm, beginTus, withBearer, writes }
}

test('an organization without access to storage writes nothing through any door, and reads and removes on (D91)', async () => {
  const { owner, client, Bucket, UploadId, environment, writes, ...doors } = await openDoors()
  const { newSession, append, sendForm, beginTus, withBearer } = doors

  await client.send(new PutObjectCommand({ Bucket, Key: 'trashed', Body: 'content' }))
  await client.send(new DeleteObjectCommand({ Bucket, Key: 'trashed' }))
  const trashed = await platform.call(owner.token, `GET ${environment}/buckets/${Bucket}/trash`)
  await setEntitlement(platform.api, owner.organizationId, 'storage', 'SUSPENDED')
  for (const [name, send] of Object.entries(writes))
    expect([name, await outcome(send())]).toEqual([name, [403, noStorage]])
  expect((await withBearer(`${Bucket}/bearer`)).status).toBe(403)
  expect((await withBearer(bucketName())).status).toBe(403)
  const formed = await sendForm()
  expect([formed.status, await formed.text()]).toEqual([403, expect.stringContaining(noStorage)])
  for (const refused of [
    await platform.call(owner.token, `POST ${environment}/storage/buckets`, { name: bucketName() }),
    await newSession(),
    await platform.call(owner.token, `POST ${environment}/trash/${trashed.body.items[0].id}/restore`),
    await platform.call(owner.token, `POST ${environment}/buckets/${Bucket}/trash/restore`, {}),
  ])
    expect(refused).toMatchObject({ status: 403, body: { error: noStorage } })
  for (const refused of [await append(), await beginTus()])
    expect([refused.status, await refused.json()]).toEqual([403, { error: noStorage }])

  // Reading and removing still work.
  const read = await client.send(new GetObjectCommand({ Bucket, Key: 'kept' }))
  expect(await read.Body?.transformToString()).toBe('content')
  const { Contents } = await client.send(new ListObjectsV2Command({ Bucket }))
  expect(Contents?.map(({ Key }) => Key)).toEqual(['kept'])
  expect((await platform.call(owner.token, `GET ${environment}/buckets/${Bucket}/objects`)).body.total).toBe(1)
  await client.send(new DeleteObjectCommand({ Bucket, Key: 'kept' }))
  await client.send(new AbortMultipartUploadCommand({ Bucket, Key: 'parts', UploadId }))

  await setEntitlement(platform.api, owner.organizationId, 'storage', 'ACTIVE')
  expect(await outcome(writes.object())).toEqual([200])
  expect([(await sendForm()).status, (await append()).status, (await beginTus()).status]).toEqual([204, 204, 201])
})

test('an organization that stores as much as it may stores no more through any door, and removes on (D77)', async () => {
  const { owner, client, Bucket, environment, writes, ...doors } = await openDoors()
  const { newSession, append, sendForm, beginTus } = doors
  await setQuota(platform.api, owner.organizationId, 'stored_bytes', 7)
  await sumStoredBytes(platform.api)
  const { object, copy, upload, part } = writes
  for (const [name, send] of Object.entries({ object, copy, upload, part }))
    expect([name, await outcome(send())]).toEqual([name, [403, expect.stringContaining('stored_bytes')]])
  const formed = await sendForm()
  expect([formed.status, await formed.text()]).toEqual([403, expect.stringContaining('<Code>QuotaExceeded</Code>')])
  const session = await newSession()
  expect([session.status, session.headers['retry-after'], session.body.error]).toEqual([
    429,
    undefined,
    expect.stringContaining('stored_bytes'),
  ])
  for (const refused of [await append(), await beginTus()])
    expect([refused.status, await refused.json()]).toEqual([429, { error: expect.stringContaining('stored_bytes') }])

  expect(await outcome(writes.bucket())).toEqual([200])
  expect(await outcome(writes.tags())).toEqual([200])
  await client.send(new DeleteObjectCommand({ Bucket, Key: 'kept' }))
  await sumStoredBytes(platform.api)
  expect((await outcome(object()))[0]).toBe(403) // the trash counts as stored, too
  expect((await platform.call(owner.token, `DELETE ${environment}/buckets/${Bucket}/trash`)).status).toBe(200)
  await sumStoredBytes(platform.api)
  expect(await outcome(object())).toEqual([200])
})

test('bytes of an upload under way count as stored until it is given up (D77)', async () => {
  const { owner, client } = await newS3User(s3)
  const Bucket = bucketName()
  await client.send(new CreateBucketCommand({ Bucket }))
  const upload = { Bucket, Key: 'parts' }
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(upload))
  await client.send(new UploadPartCommand({ ...upload, UploadId, PartNumber: 1, Body: 'content' }))
  await setQuota(platform.api, owner.organizationId, 'stored_bytes', 7)
  const put = () => outcome(client.send(new PutObjectCommand({ Bucket, Key: 'new', Body: 'x' })))
  await sumStoredBytes(platform.api)
  expect(await put()).toEqual([403, expect.stringContaining('stored_bytes')])
  await client.send(new AbortMultipartUploadCommand({ ...upload, UploadId }))
  await sumStoredBytes(platform.api)
  expect(await put()).toEqual([200])
})
