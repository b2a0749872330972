// engines: s3
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { CreateBucketCommand, GetObjectCommand, PutBucketCorsCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { describeInChromium } from '@platform/testkit/chromium'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketName, newS3User, type S3User, sendSigned, sign, startS3, type TestS3 } from '../../../../test/s3.ts'

const Bucket = bucketName()
let platform: TestPlatform
let s3: TestS3
let ana: S3User
const sites: Server[] = []

/** An origin with an empty page. */
async function newSite(): Promise<string> {
  const server = createServer((_, outgoing) => outgoing.setHeader('content-type', 'text/html').end('<!doctype html>'))
  sites.push(server)
  await once(server.listen(0, 'localhost'), 'listening')
  return `http://localhost:${(server.address() as AddressInfo).port}`
}

let allowed: string
let other: string
beforeAll(async () => {
  platform = await startPlatform()
  s3 = await startS3(platform)
  ana = await newS3User(s3)
  allowed = await newSite()
  other = await newSite()
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  const rule = { AllowedOrigins: [allowed], AllowedMethods: ['GET', 'PUT', 'POST'], AllowedHeaders: ['*'] }
  const CORSConfiguration = { CORSRules: [{ ...rule, ExposeHeaders: ['ETag'] }] }
  await ana.client.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration }))
})
afterAll(async () => {
  for (const site of sites) site.close()
  await s3.close()
  await platform.close()
})

interface Sent {
  url: string
  method?: string
  headers?: Record<string, string>
  body?: string
  /** Fields of a form, sent with a file by a request that watches its progress. */
  fields?: Record<string, string>
}

/** Sends a request from a page, and returns status, ETag and text, or 'unreadable'. */
const script = ({ url, method = 'GET', headers = {}, body, fields }: Sent): string =>
  fields === undefined
    ? `fetch(${JSON.stringify(url)}, ${JSON.stringify({ method, headers, body })})
        .then(async (answer) => [answer.status, answer.headers.get('etag'), await answer.text()], () => 'unreadable')`
    : `new Promise((resolve) => {
        const form = new FormData()
        for (const [name, value] of Object.entries(${JSON.stringify(fields)})) form.append(name, value)
        form.append('file', new File(['posted'], 'a.txt'))
        const request = new XMLHttpRequest()
        // Listening for upload progress makes the browser send a preflight.
        request.upload.onprogress = () => {}
        request.onload = () => resolve([request.status, request.getResponseHeader('etag'), ''])
        request.onerror = () => resolve('unreadable')
        request.open('POST', ${JSON.stringify(url)})
        request.send(form)
      })`

const read = async (key: string) => {
  const { status, text } = await sendSigned(s3, { path: `/s3/${Bucket}/${key}` }, ana)
  return status === 200 ? text : status
}
const etag = expect.stringMatching(/^"[0-9a-f]{32}"$/) as string

describeInChromium('a page and the rules of a bucket', (open) => {
  const from = async (origin: string, sent: Sent): Promise<unknown> => {
    const { page } = await open()
    await page.goto(origin)
    return page.evaluate(script(sent))
  }

  test('a page that a rule allows writes and reads by presigned URLs; another cannot', async () => {
    const put = await getSignedUrl(ana.client, new PutObjectCommand({ Bucket, Key: 'by-url' }))
    const get = await getSignedUrl(ana.client, new GetObjectCommand({ Bucket, Key: 'by-url' }))
    const write = { url: put, method: 'PUT', headers: { 'content-type': 'text/x' }, body: 'hello' }
    expect(await from(other, write)).toBe('unreadable')
    expect(await read('by-url')).toBe(404)
    expect(await from(allowed, write)).toEqual([200, etag, ''])
    expect(await from(allowed, { url: get })).toEqual([200, etag, 'hello'])
    expect(await from(other, { url: get })).toBe('unreadable')
  })

  test('a page that signs in its headers is held to the rules, too', async () => {
    const request = { method: 'PUT', path: `/s3/${Bucket}/by-header`, body: 'hello' }
    const { headers = {} } = sign(s3, request, { ...ana, at: platform.clock.now() })
    const write = { url: `http://${s3.host}${request.path}`, method: 'PUT', headers, body: 'hello' }
    expect(await from(other, write)).toBe('unreadable')
    expect(await read('by-header')).toBe(404)
    expect(await from(allowed, write)).toEqual([200, etag, ''])
    expect(await read('by-header')).toBe('hello')
  })

  test('a page watches how its form goes up', async () => {
    const { url, fields } = await createPresignedPost(ana.client, { Bucket, Key: 'posted' })
    expect(await from(allowed, { url, fields })).toEqual([204, etag, ''])
    expect(await read('posted')).toBe('posted')
    expect(await from(other, { url, fields })).toBe('unreadable')
  })
})
