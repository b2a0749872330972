import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { deploy, visit } from '../../../services/api/test/deploy.ts'
import { picture } from '../../../services/api/test/images.ts'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import {
  apiKey,
  createApiKey,
  createBucket,
  type Fetch,
  imageUrl,
  openaiConfig,
  Platform,
  s3Config,
  staticToken,
} from '../src/index.ts'

let server: TestPlatform
let owner: Owner
let user: Platform
beforeAll(async () => {
  server = await startPlatform()
  owner = await newOwner(server)
  user = new Platform({ baseUrl: server.apiUrl, credential: staticToken(owner.token) })
})
afterAll(() => server.close())

/** Lets time pass, for the service and for the client. */
function moveClocks(ms: number): void {
  server.clock.advance(ms)
  passedMs += ms
  const now = () => realNow() + passedMs
  vi.spyOn(Date, 'now').mockImplementation(now)
}
const realNow = Date.now
let passedMs = 0

/** A key of the application with these scopes. */
const newKey = (scopes: string[]) =>
  createApiKey(user, { body: { name: 'sdk', applicationId: owner.applicationId, scopes } })

test('an unmodified S3 client stores and reads a file', async () => {
  const { id, secret } = await newKey(['network:storage:read', 'network:storage:write'])
  const place = { applicationId: owner.applicationId, environment: 'production' }
  await createBucket(user, { ...place, body: { name: 'media' } })
  const s3 = new S3Client(s3Config({ baseUrl: server.apiUrl, id, secret }))
  await s3.send(new PutObjectCommand({ Bucket: 'media', Key: 'a.txt', Body: 'Hello' }))
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: 'media', Key: 'a.txt' }))
  expect(await Body?.transformToString()).toBe('Hello')
  s3.destroy()
})

test('the URL of an image is one that the edge serves, in the size and format that were asked for', async () => {
  const files = { 'cats/tabby cat.jpg': { content: await picture(400, 200), contentType: 'image/jpeg' } }
  const { host } = await deploy(server, owner, { files })
  const url = new URL(
    imageUrl({
      origin: `http://${host}`,
      source: '/cats/tabby cat.jpg',
      width: 128,
      format: 'webp',
      quality: 60,
      fit: 'cover',
    }),
  )
  expect(url.host).toBe(host)
  const { status, headers, body } = await visit(server, host, url.pathname + url.search)
  expect([status, headers['content-type'], body.subarray(8, 12).toString()]).toEqual([200, 'image/webp', 'WEBP'])
  expect(imageUrl({ origin: 'https://a.example', source: '/x' })).toBe('https://a.example/_platform/image/%2Fx/image')
})

// Last, since the tokens of the others end with it.
test('an unmodified openai client goes on over two renewals of its token', async () => {
  const { id, secret } = await newKey(['network:ai_gateway:chat'])
  let exchanges = 0
  const counting: Fetch = (url, init) => {
    if (url.endsWith('/oauth2/token')) exchanges += 1
    return fetch(url, init)
  }
  const platform = new Platform({ baseUrl: server.apiUrl, credential: apiKey({ id, secret }), fetch: counting })
  const client = new OpenAI({ ...openaiConfig(platform), maxRetries: 0 })
  const said: (string | null | undefined)[] = []
  for (let renewals = 0; renewals < 3; renewals += 1) {
    const { choices } = await client.chat.completions.create({
      model: 'local/echo',
      messages: [{ role: 'user', content: `Hi ${renewals}` }],
    })
    said.push(choices[0]?.message.content)
    moveClocks(301_000)
  }
  vi.restoreAllMocks()
  expect(said).toEqual([0, 1, 2].map((n) => expect.stringContaining(`Hi ${n}`) as string))
  expect(exchanges).toBe(3)
})
