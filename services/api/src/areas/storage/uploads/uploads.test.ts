// engines: s3
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { chunksOf, findObjectWithContent, openObject } from '../objects/read-object.ts'

let platform: TestPlatform
let ana: Owner
let bucket: { id: string; name: string }
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
  bucket = await newBucket()
})
afterAll(() => platform.close())

const path = () => `/applications/${ana.applicationId}/environments/production/buckets`
async function newBucket(more: object = {}): Promise<{ id: string; name: string }> {
  const made = await platform.call(ana.token, `POST /applications/${ana.applicationId}/storage/buckets`, {
    name: `b-${unique()}`,
    ...more,
  })
  expect(made.status).toBe(201)
  return made.body as { id: string; name: string }
}
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')
async function stored(key: string): Promise<Buffer | undefined> {
  const row = await findObjectWithContent(platform.api, bucket.id, key)
  return row && buffer(chunksOf(openObject(platform.api, row.object, row.first)))
}

const tus = { 'tus-resumable': '1.0.0' }
const head = (url: string) => fetch(url, { method: 'HEAD', headers: tus })
const patch = (url: string, offset: number, content: string) =>
  fetch(url, {
    method: 'PATCH',
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) },
    body: content,
  })

const begin = async (content: Buffer, more: object = {}) => {
  const key = unique()
  const made = await platform.call(ana.token, `POST ${path()}/${bucket.name}/uploads`, {
    key,
    contentLength: content.length,
    checksumSha256: sha256(content),
    contentType: 'text/plain',
    ...more,
  })
  return { key, made }
}

test('a session takes the bytes at a URL that needs nothing else, and becomes the object', async () => {
  const content = Buffer.from('some bytes')
  const { key, made } = await begin(content)
  expect(made).toMatchObject({
    status: 201,
    body: {
      session: { key, state: 'pending', contentLength: 10, checksumSha256: sha256(content), uploadedAt: null },
      upload: { method: 'PATCH', publicObjectUrl: null },
    },
  })
  const { url, headers } = made.body.upload as { url: string; headers: Record<string, string> }
  expect((await head(url)).headers.get('upload-length')).toBe('10')
  const session = `GET ${path()}/${bucket.name}/uploads/${made.body.session.id}`
  const half = await fetch(url, { method: 'PATCH', headers, body: 'some ' })
  expect([half.status, half.headers.get('upload-offset')]).toEqual([204, '5'])
  expect((await platform.call(ana.token, session)).body).toMatchObject({ state: 'ready' })
  expect((await patch(url, 5, 'bytes')).status).toBe(204)
  expect((await platform.call(ana.token, session)).body).toMatchObject({ state: 'completed' })
  expect((await stored(key))?.toString()).toBe('some bytes')
  const listed = await platform.call(ana.token, `GET ${path()}/${bucket.name}/objects?prefix=${key}`)
  expect(listed.body.items[0]).toMatchObject({
    uploadSessionId: made.body.session.id,
    contentType: 'text/plain',
    checksumSha256: sha256(content),
  })
  const all = await platform.call(ana.token, `GET ${path()}/${bucket.name}/uploads`)
  expect(all.body.total).toBe(all.body.items.length)
  expect(JSON.stringify(all.body)).not.toContain(url.split('.').at(-1))
})

test('a session that is sent other bytes than declared fails and stores nothing', async () => {
  const { key, made } = await begin(Buffer.from('expected'))
  const answer = await patch(made.body.upload.url as string, 0, 'received')
  expect([answer.status, await answer.json()]).toEqual([
    422,
    { error: 'The SHA-256 of the bytes is not the one that was declared' },
  ])
  const session = `GET ${path()}/${bucket.name}/uploads/${made.body.session.id}`
  expect((await platform.call(ana.token, session)).body).toMatchObject({ state: 'failed' })
  expect(await stored(key)).toBeUndefined()
  expect((await head(made.body.upload.url as string)).status).toBe(410)
})

test('a session of no bytes is completed at once', async () => {
  const { key, made } = await begin(Buffer.alloc(0))
  expect(made.body.session.state).toBe('completed')
  expect((await stored(key))?.length).toBe(0)
})

test('a session in a public bucket names the URL that the object will have', async () => {
  const open = await newBucket({ visibility: 'public' })
  const made = await platform.call(ana.token, `POST ${path()}/${open.name}/uploads`, {
    key: 'a b',
    contentLength: 1,
    checksumSha256: sha256('x'),
  })
  expect(made.body.upload.publicObjectUrl).toBe(`${platform.edgeUrl}/_objects/${open.name}/a%20b`)
})
