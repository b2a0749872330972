// engines: s3
import { lookup } from 'node:dns'
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Readable } from 'node:stream'
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  bucketName,
  newS3User,
  s3Client,
  type S3Answer,
  type S3Request,
  type S3User,
  sendRaw,
  sign,
} from '../../../../test/s3.ts'
import { addressingOf } from './addressing.ts'

const ORIGIN = 'https://console.example.com'
const DOMAIN = 's3.localhost'
let platform: TestPlatform
let ana: S3User
const Bucket = bucketName()
/** The ports that serve S3_DOMAIN. */
let ports: { api: string; s3: string }
beforeAll(async () => {
  platform = await startPlatform({ s3Domain: DOMAIN, corsOrigins: [ORIGIN] })
  ports = { api: new URL(platform.apiUrl).port, s3: new URL(platform.s3Url).port }
  ana = await newS3User({ url: platform.s3Url, platform })
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  await ana.client.send(new PutObjectCommand({ Bucket, Key: 'there', Body: 'hello' }))
})
afterAll(() => platform.close())

/** The SDK with buckets as hosts, all of which resolve to this machine. */
const hostedClient = (port: string): S3Client =>
  s3Client({ url: `http://${DOMAIN}:${port}` }, ana.key, {
    forcePathStyle: false,
    requestHandler: { httpAgent: new Agent({ lookup: (_, options, done) => lookup('localhost', options, done) }) },
  })

const read = async (client: S3Client, Key: string, bucket = Bucket) =>
  (await client.send(new GetObjectCommand({ Bucket: bucket, Key }))).Body?.transformToString()

/** Sends a request signed for a host to a port. */
function send(
  port: string,
  { host, signedHost = host, ...options }: S3Request & { host: string; signedHost?: string },
  payloadHash?: string,
): Promise<S3Answer> {
  const signing = { key: ana.key, at: platform.clock.now(), host: signedHost, ...(payloadHash && { payloadHash }) }
  const signed = sign({ host: signedHost }, options, signing)
  return sendRaw({ host: `localhost:${port}` }, { ...signed, headers: { ...signed.headers, host } })
}

/** Does what every client does, wherever S3 is. Returns the Location of a completed upload. */
async function exercise(client: S3Client, bucket: string): Promise<string> {
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  expect((await client.send(new ListBucketsCommand({}))).Buckets?.map(({ Name }) => Name)).toContain(bucket)
  await client.send(new PutObjectCommand({ Bucket: bucket, Key: 'a b/ü+(1)', Body: 'one' }))
  expect(await read(client, 'a b/ü+(1)', bucket)).toBe('one')
  const stream = Readable.from([Buffer.from('str'), Buffer.from('eam')])
  await client.send(new PutObjectCommand({ Bucket: bucket, Key: 'streamed', Body: stream, ContentLength: 6 }))
  expect(await read(client, 'streamed', bucket)).toBe('stream')
  const listed = await client.send(new ListObjectsV2Command({ Bucket: bucket, Delimiter: '/' }))
  expect(listed.CommonPrefixes).toEqual([{ Prefix: 'a b/' }])
  expect(listed.Contents?.map(({ Key }) => Key)).toEqual(['streamed'])
  const of = { Bucket: bucket, Key: 'of parts' }
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(of))
  const { ETag } = await client.send(new UploadPartCommand({ ...of, UploadId, PartNumber: 1, Body: 'part' }))
  const parts = { Parts: [{ PartNumber: 1, ETag }] }
  const made = await client.send(new CompleteMultipartUploadCommand({ ...of, UploadId, MultipartUpload: parts }))
  await client.send(new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects: [{ Key: 'streamed' }] } }))
  await expect(read(client, 'streamed', bucket)).rejects.toMatchObject({ name: 'NoSuchKey' })
  return made.Location ?? ''
}

test('S3 stands at the root of a port of its own', async () => {
  const bucket = bucketName()
  expect(await exercise(ana.client, bucket)).toBe(`${platform.s3Url}/${bucket}/of%20parts`)
  // Both addresses lead to the same store.
  expect(await read(s3Client({ url: `${platform.apiUrl}/s3` }, ana.key), 'a b/ü+(1)', bucket)).toBe('one')
})

test.each(['s3', 'api'] as const)('buckets are hosts below S3_DOMAIN, on the port of %s', async (name) => {
  const bucket = bucketName()
  const location = `http://${bucket}.${DOMAIN}:${ports[name]}/of%20parts`
  expect(await exercise(hostedClient(ports[name]), bucket)).toBe(location)
  const byPath = s3Client({ url: `http://localhost:${ports.s3}` }, ana.key)
  expect(await read(byPath, 'of parts', bucket)).toBe('part')
})

test.each(['s3', 'api'] as const)('S3_DOMAIN itself takes paths, on the port of %s', async (name) => {
  const host = `${DOMAIN}:${ports[name]}`
  expect(await send(ports[name], { host, path: `/${Bucket}/there` })).toMatchObject({ status: 200, text: 'hello' })
  const list = await send(ports[name], { host, path: '/' })
  expect(list.text).toContain(`<Name>${Bucket}</Name>`)
  // Proxies may omit the port, and hosts are case-insensitive.
  for (const spelled of [DOMAIN, `${Bucket}.S3.localhost`]) {
    const path = spelled === DOMAIN ? `/${Bucket}/there` : '/there'
    expect(await send(ports[name], { host: spelled, path })).toMatchObject({ status: 200, text: 'hello' })
  }
})

test('a bucket of preview is a host with its environment in front (D34)', async () => {
  const bucket = `preview.${bucketName()}`
  const host = `${bucket}.${DOMAIN}`
  expect(await send(ports.s3, { host, method: 'PUT', path: '/' })).toMatchObject({
    status: 200,
    headers: { location: '/' },
  })
  expect((await send(ports.s3, { host, method: 'PUT', path: '/k', body: 'x' })).status).toBe(200)
  expect(await read(ana.client, 'k', bucket)).toBe('x')
  expect(await send(ports.s3, { host: `staging.${host}`, path: '/k' })).toMatchObject({ code: 'InvalidBucketName' })
})

test('presigned URLs and forms work at the root and at a host', async () => {
  for (const client of [ana.client, hostedClient(ports.s3)]) {
    const through = async (url: string, init?: RequestInit) => {
      const { hostname, port, pathname, search } = new URL(url)
      const path = `${pathname}${search}`
      const body = init?.body as string | undefined
      const headers = { host: `${hostname}:${port}` }
      return sendRaw(
        { host: `localhost:${port}` },
        { method: init?.method ?? 'GET', path, headers, ...(body && { body }) },
      )
    }
    const put = await getSignedUrl(client, new PutObjectCommand({ Bucket, Key: 'signed' }))
    expect((await through(put, { method: 'PUT', body: 'by URL' })).status).toBe(200)
    const get = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key: 'signed' }))
    expect(await through(get)).toMatchObject({ status: 200, text: 'by URL' })

    const { url, fields } = await createPresignedPost(client, {
      Bucket,
      Key: 'posted',
      Fields: { success_action_status: '201' },
      Conditions: [{ success_action_status: '201' }],
    })
    const form = Object.entries({ ...fields, file: 'by form' }).map(
      ([name, value]) => `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    )
    const { host, port, pathname } = new URL(url)
    const answer = await sendRaw(
      { host: `localhost:${port}` },
      {
        method: 'POST',
        path: pathname,
        headers: { host, 'content-type': 'multipart/form-data; boundary=x' },
        body: `${form.join('')}--x--\r\n`,
      },
    )
    expect(answer.status).toBe(201)
    expect(answer.text).toContain(`<Location>${new URL('posted', url.endsWith('/') ? url : `${url}/`).href}</Location>`)
    expect(await read(ana.client, 'posted')).toBe('by form')
  }
})

test('anyone reads a public bucket by its slug, as a path and as a host', async () => {
  const bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket: bucket, ACL: 'public-read' }))
  await ana.client.send(new PutObjectCommand({ Bucket: bucket, Key: 'open', Body: 'for all' }))
  const text = `/applications/${ana.owner.applicationId}/storage/buckets/${bucket}`
  const { slug } = (await platform.call(ana.owner.token, `GET ${text}`)).body as { slug: string }
  const to = { host: `localhost:${ports.s3}` }
  expect(await sendRaw(to, { path: `/${slug}/open` })).toMatchObject({ status: 200, text: 'for all' })
  const headers = { host: `${slug}.${DOMAIN}` }
  expect(await sendRaw(to, { path: '/open', headers })).toMatchObject({ status: 200, text: 'for all' })
  expect(await sendRaw(to, { path: '/', headers })).toMatchObject({ status: 403, code: 'AccessDenied' })
})

test('at the root /s3 is no prefix', async () => {
  const path = `/s3/${Bucket}/there`
  const host = `localhost:${ports.s3}`
  expect(await send(ports.s3, { host, path })).toMatchObject({ status: 400, code: 'InvalidBucketName' })
  const bucketHost = `${Bucket}.${DOMAIN}`
  expect((await send(ports.s3, { host: bucketHost, method: 'PUT', path, body: 'x' })).status).toBe(200)
  expect(await read(ana.client, path.slice(1))).toBe('x')
})

test('what was signed for one bucket does not hold for another by a host that was not signed', async () => {
  const other = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket: other }))
  await ana.client.send(new PutObjectCommand({ Bucket, Key: `${other}/key`, Body: 'of one' }))
  await ana.client.send(new PutObjectCommand({ Bucket: other, Key: 'key', Body: 'of another' }))
  const path = `/${other}/key`
  const [asBucket, asDomain, asOther] = [`${Bucket}.${DOMAIN}`, DOMAIN, `${other}.${DOMAIN}`]
  expect(await send(ports.s3, { host: asBucket, path })).toMatchObject({ text: 'of one' })
  expect(await send(ports.s3, { host: asDomain, path })).toMatchObject({ text: 'of another' })
  for (const [signedHost, host, sent] of [
    [asBucket, asDomain, path],
    [asDomain, asBucket, path],
    [asBucket, asOther, '/key'],
    [asBucket, `localhost:${ports.s3}`, path],
    [new URL(platform.apiUrl).host, asBucket, path],
  ] as const) {
    const headers: Record<string, string> = {}
    for (const forwarded of [undefined, signedHost]) {
      if (forwarded !== undefined) headers['x-forwarded-host'] = forwarded
      const answer = await send(ports.s3, { host, signedHost, path: sent, headers })
      expect(answer, `${signedHost} at ${host}`).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' })
    }
  }
})

/** A third party's proxy: forwards requests to a port after `change` has rewritten them. */
async function startProxy(
  port: string,
  change: (options: { url: string; host: string }) => { url?: string; headers: Record<string, string> },
): Promise<string> {
  const proxy = createServer((incoming, outgoing) => {
    const { url, headers } = change({ url: incoming.url ?? '/', host: incoming.headers.host ?? '' })
    const { method, url: path } = incoming
    const sent = request({
      host: 'localhost',
      port,
      method,
      path: url ?? path,
      headers: { ...incoming.headers, ...headers },
    })
    sent.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    sent.on('error', () => outgoing.destroy())
    incoming.pipe(sent)
  })
  await once(proxy.listen(0, 'localhost'), 'listening')
  onTestFinished(() => void proxy.close())
  onTestFinished(() => proxy.closeAllConnections())
  return `http://localhost:${(proxy.address() as AddressInfo).port}`
}

test('a proxy may have a root of its own for /s3, as long as it keeps Host', async () => {
  const url = await startProxy(ports.api, ({ url: path, host }) => ({ url: `/s3${path}`, headers: { host } }))
  const client = s3Client({ url }, ana.key)
  await exercise(client, bucketName())
  const signed = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key: 'there' }))
  expect(await (await fetch(signed)).text()).toBe('hello')
})

test('a trusted proxy may say which origin was asked, and answers name that one', async () => {
  const url = await startProxy(ports.s3, ({ host }) => ({
    headers: { host: 'inner:1', 'x-forwarded-host': host, 'x-forwarded-proto': 'https' },
  }))
  const bucket = bucketName()
  const location = await exercise(s3Client({ url }, ana.key), bucket)
  expect(location).toBe(`${url.replace('http:', 'https:')}/${bucket}/of%20parts`)
})

test('failures at the root are documents, with the path that was asked', async () => {
  const host = `localhost:${ports.s3}`
  const answer = await send(ports.s3, { host, path: `/${Bucket}/none` })
  expect(answer).toMatchObject({
    status: 404,
    code: 'NoSuchKey',
    headers: { 'content-type': 'application/xml', 'x-amz-request-id': expect.any(String) as string },
  })
  expect(answer.text).toContain(`<Resource>/${Bucket}/none</Resource>`)
  expect(answer.headers['x-request-id']).toBe(answer.headers['x-amz-request-id'])
  const absent = await send(ports.api, { host: `${Bucket}.${DOMAIN}`, path: '/?analytics' })
  expect(absent).toMatchObject({ status: 501, code: 'NotImplemented' })
  expect(await sendRaw({ host }, { path: '/' })).toMatchObject({ status: 403, code: 'AccessDenied' })
})

test.each([
  ['no HTTP', 'nonsense\r\n\r\n', 400, 'InvalidRequest'],
  ['no path', 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400, 'InvalidURI'],
])('of %s the port of S3 says so in XML', async (_, text, status, code) => {
  const socket = connect(Number(ports.s3), 'localhost')
  socket.write(text)
  const answer = (await socket.setEncoding('utf8').toArray()).join('')
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect(answer).toMatch(/content-type: application\/xml/i)
  expect(answer).toContain(`<Code>${code}</Code>`)
})

test('the root and S3_DOMAIN count on the counter of /s3 (D44)', async () => {
  const from = { 'x-forwarded-for': '203.0.113.78' }
  await platform.api.limiter.hit(Array.from({ length: 24_000 }, () => 'objects:203.0.113.78'))
  for (const [port, host, path] of [
    [ports.s3, `localhost:${ports.s3}`, `/${Bucket}/there`],
    [ports.s3, `${Bucket}.${DOMAIN}`, '/there'],
    [ports.api, `${Bucket}.${DOMAIN}`, '/there'],
    [ports.api, new URL(platform.apiUrl).host, `/s3/${Bucket}/there`],
  ] as const)
    expect(await send(port, { host, path, headers: from })).toMatchObject({
      status: 429,
      code: 'SlowDown',
      headers: { 'retry-after': '60' },
    })
})

test('pages of the configured origins may use the root as they may use /s3', async () => {
  const preflight = { origin: ORIGIN, 'access-control-request-method': 'PUT' }
  const to = { host: `localhost:${ports.s3}` }
  const options = await sendRaw(to, { method: 'OPTIONS', path: `/${Bucket}/there`, headers: preflight })
  expect(options).toMatchObject({ status: 204, headers: { 'access-control-allow-origin': ORIGIN } })
  const answer = await send(ports.s3, { host: to.host, path: `/${Bucket}/there`, headers: { origin: ORIGIN } })
  expect(answer.headers['access-control-expose-headers']).toContain('ETag')
})

test('the API goes on under its own name where that lies below S3_DOMAIN', async () => {
  const names = { publicUrl: 'https://api.example.com', s3Domain: 'example.com' }
  expect(
    ['API.example.com', 'example.com', 'media.example.com', 'example.org'].map((host) => addressingOf(names, host)),
  ).toEqual([{ kind: 'prefix', prefix: '/s3' }, { kind: 'root' }, { kind: 'host', bucket: 'media' }, undefined])
})
