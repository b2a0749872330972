import { createHash, createHmac, randomBytes } from 'node:crypto'
import { request, type RequestListener } from 'node:http'
import { S3Client, type S3ClientConfig, S3ServiceException } from '@aws-sdk/client-s3'
import { amzTimestamp } from '@platform/s3-protocol/signature/claim'
import { listen } from '@platform/service/http-server'
import type { TestPlatform } from '@platform/testing/platform'
import { createS3Listener } from '../src/areas/storage/s3/server.ts'
import { type Key, newKey, newOwner, type Owner, unique } from './scenario.ts'

/** What a key may hold for objects. */
export const storageScopes = ['network:storage:read', 'network:storage:write', 'network:storage:delete']

/** The S3 API of a started platform. */
export interface TestS3 {
  /** With `/s3`, unless it stands at the root. */
  url: string
  host: string
  platform: TestPlatform
  close(): Promise<void>
}

/** An address may send 24,000 requests in 60 s (A §8). */
const REQUESTS_PER_ADDRESS = 20_000

/** Requests come from addresses of their own, which other suites do not count on and clients cannot name. */
export async function startS3(platform: TestPlatform, place: 'prefix' | 'root' = 'prefix'): Promise<TestS3> {
  const door = createS3Listener(platform.api, place)
  const network = randomBytes(2)
  let sent = 0
  const listener: RequestListener = (incoming, outgoing) => {
    const n = Math.floor(sent++ / REQUESTS_PER_ADDRESS)
    incoming.headers['x-forwarded-for'] ??= `100.${network.join('.')}.${n & 255}`
    door(incoming, outgoing)
  }
  const server = await listen(listener, 'localhost', 0, undefined, { requestTimeoutMs: 0, isBodyInvited: true })
  const host = `localhost:${server.port}`
  return { url: `http://${host}${place === 'prefix' ? '/s3' : ''}`, host, platform, close: () => server.stop(0) }
}

/** Somebody with a key of every storage scope, and a client of the SDK with nothing set but what it needs. */
export interface S3User {
  owner: Owner
  key: Key
  client: S3Client
}

export function s3Client(
  s3: Pick<TestS3, 'url'>,
  key: Pick<Key, 'id' | 'secret'>,
  more: S3ClientConfig = {},
): S3Client {
  return new S3Client({
    endpoint: s3.url,
    region: 'eu-central-1',
    forcePathStyle: true,
    credentials: { accessKeyId: key.id, secretAccessKey: key.secret },
    // A refusal that is the point of a test is no reason to try again.
    maxAttempts: 1,
    ...more,
  })
}

export async function newS3User(
  s3: Pick<TestS3, 'url' | 'platform'>,
  scopes: readonly string[] = storageScopes,
  of?: Owner,
): Promise<S3User> {
  const owner = of ?? (await newOwner(s3.platform))
  const key = await newKey(s3.platform, owner, scopes)
  return { owner, key, client: s3Client(s3, key) }
}

/** The status of what a client of the SDK was answered, refusals included. */
export async function statusOf(sent: Promise<Pick<S3ServiceException, '$metadata'>>): Promise<number | undefined> {
  try {
    return (await sent).$metadata.httpStatusCode
  } catch (error) {
    if (error instanceof S3ServiceException) return error.$metadata.httpStatusCode
    throw error
  }
}

export const bucketName = (): string => `bucket-${unique()}`

/** An answer, to the byte. */
export interface S3Answer {
  status: number
  headers: Record<string, string>
  body: Buffer
  text: string
  /** The code of an error document. */
  code: string | undefined
}

export interface S3Request {
  method?: string
  /** Raw, below the host: `/s3/bucket/key?query`. */
  path: string
  headers?: Record<string, string>
  body?: Buffer | string
  /** Sent in so many bytes at a time, as chunked transfer encoding. */
  pieces?: Buffer[]
}

/** Sends a request as it is given: nothing is signed, folded or added but the length. */
export function sendRaw(
  s3: Pick<TestS3, 'host'>,
  { method = 'GET', path, headers = {}, body, pieces }: S3Request,
): Promise<S3Answer> {
  const [hostname, port] = s3.host.split(':')
  return new Promise((resolve, reject) => {
    const length = body === undefined || headers['content-length'] ? {} : { 'content-length': Buffer.byteLength(body) }
    const outgoing = request({ hostname, port, method, path, headers: { ...length, ...headers } })
    outgoing.on('error', reject)
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('error', reject)
      incoming.on('end', () => {
        const bytes = Buffer.concat(chunks)
        const text = bytes.toString()
        resolve({
          status: incoming.statusCode ?? 0,
          headers: incoming.headers as Record<string, string>,
          body: bytes,
          text,
          code: /<Code>(\w+)<\/Code>/.exec(text)?.[1],
        })
      })
    })
    for (const piece of pieces ?? []) outgoing.write(piece)
    outgoing.end(body)
  })
}

export const sha256 = (data: Buffer | string): string => createHash('sha256').update(data).digest('hex')
const hmac = (key: Buffer | string, data: string) => createHmac('sha256', key).update(data).digest()

export interface Signing {
  key: Pick<Key, 'id' | 'secret'>
  at?: Date
  /** What stands for the body; its hash unless given. */
  payloadHash?: string
  /** Left out of what is signed. */
  unsigned?: string[]
  region?: string
  /** The host that is signed, where it is another than the one that is sent. */
  host?: string
}

/** The key that signs on a day. */
export function signingKeyOf({ key, at: time = new Date(), region = 'r' }: Signing): Buffer {
  const day = amzTimestamp(time).slice(0, 8)
  return hmac(hmac(hmac(hmac(`AWS4${key.secret}`, day), region), 's3'), 'aws4_request')
}

/** Signs a request by hand, so that any part of it can be wrong. Its path must be in SigV4's own spelling. */
export function sign(
  s3: Pick<TestS3, 'host'>,
  options: S3Request,
  signing: Signing,
): S3Request & { signature: string } {
  const { method = 'GET', path, body = '', headers = {} } = options
  const { at: time = new Date(), unsigned = [], region = 'r' } = signing
  const timestamp = amzTimestamp(time)
  const payloadHash = signing.payloadHash ?? sha256(body)
  const [rawPath = '', query = ''] = path.split('?')
  const sorted = query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => pair.split('=', 2) as [string, string?])
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value = '']) => `${name}=${value}`)
    .join('&')
  const all: Record<string, string> = {
    host: signing.host ?? s3.host,
    'x-amz-content-sha256': payloadHash,
    'x-amz-date': timestamp,
    ...headers,
  }
  const names = Object.keys(all)
    .map((name) => name.toLowerCase())
    .filter((name) => !unsigned.includes(name) && (name === 'host' || name.startsWith('x-amz-')))
    .toSorted()
  const lines = names.map((name) => `${name}:${(all[name] ?? '').trim()}\n`).join('')
  const canonical = `${method}\n${rawPath}\n${sorted}\n${lines}\n${names.join(';')}\n${payloadHash}`
  const scope = `${timestamp.slice(0, 8)}/${region}/s3/aws4_request`
  const signature = hmac(
    signingKeyOf(signing),
    `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${sha256(canonical)}`,
  ).toString('hex')
  const { host: _host, ...sent } = all
  return {
    ...options,
    headers: {
      ...sent,
      authorization: `AWS4-HMAC-SHA256 Credential=${signing.key.id}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`,
    },
    signature,
  }
}

export const sendSigned = (s3: TestS3, options: S3Request, signing: Signing): Promise<S3Answer> =>
  sendRaw(s3, sign(s3, options, { at: s3.platform.clock.now(), ...signing }))
