import { createHash, createHmac, createSecretKey } from 'node:crypto'
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { expect, test } from 'vitest'
import { readRawHeaders } from '../wire/raw-headers.ts'
import { readTarget } from '../wire/raw-target.ts'
import { readAuthClaim, type SignatureClaim } from './claim.ts'
import { checkSignedHeaders, checkTime, verifySignature } from './verify.ts'

const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'
const credentials = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: secret }

/** Derives the key of a day from the secret, using only node:crypto. */
function keyOf({ day, region }: SignatureClaim): Buffer {
  const step = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()
  return step(step(step(step(`AWS4${secret}`, day), region), 's3'), 'aws4_request')
}

const prefix = { kind: 'prefix', prefix: '/s3' } as const

interface Sent {
  method: string
  /** The path as signed; the documentation's vectors have no /s3. */
  url: string
  headers: Record<string, string>
}

function claimOf({ url, headers }: Sent): SignatureClaim {
  const raw = readRawHeaders(Object.entries(headers).flat())
  const claim = readAuthClaim(readTarget(url, prefix), raw)
  if (claim.kind !== 'signature') throw new Error(claim.kind)
  return claim.claim
}

function verify(sent: Sent, hosts?: string[]) {
  const headers = readRawHeaders(Object.entries(sent.headers).flat())
  const claim = claimOf(sent)
  const host = headers.get('host') as string
  checkSignedHeaders(claim, headers)
  return verifySignature(
    { method: sent.method, target: readTarget(sent.url, prefix), headers, hosts: hosts ?? [host] },
    claim,
    createSecretKey(keyOf(claim)),
  )
}

const empty = createHash('sha256').digest('hex')
const documented = {
  host: 'examplebucket.s3.amazonaws.com',
  range: 'bytes=0-9',
  'x-amz-content-sha256': empty,
  'x-amz-date': '20130524T000000Z',
  authorization:
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
}

const verified = { scope: '20130524/us-east-1/s3/aws4_request', timestamp: '20130524T000000Z' }

test('the documented GET by header verifies, and not with another path, query, header or method', () => {
  const sent = { method: 'GET', url: '/test.txt', headers: documented }
  expect(verify(sent)).toMatchObject(verified)
  for (const wrong of [
    { ...sent, url: '/test.tx' },
    { ...sent, url: '/test.txt?acl' },
    { ...sent, method: 'HEAD' },
    { ...sent, headers: { ...documented, range: 'bytes=0-8' } },
  ])
    expect(() => verify(wrong)).toThrow(expect.objectContaining({ code: 'SignatureDoesNotMatch' }))
})

test('the documented lists with query parameters verify, with and without their =', () => {
  const sign = (signature: string) => ({
    host: 'examplebucket.s3.amazonaws.com',
    'x-amz-content-sha256': empty,
    'x-amz-date': '20130524T000000Z',
    authorization: `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=${signature}`,
  })
  const lifecycle = sign('fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543')
  expect(verify({ method: 'GET', url: '/?lifecycle', headers: lifecycle })).toMatchObject(verified)
  expect(verify({ method: 'GET', url: '/?lifecycle=', headers: lifecycle })).toMatchObject(verified)
  const list = sign('34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7')
  expect(verify({ method: 'GET', url: '/?prefix=J&max-keys=2', headers: list })).toMatchObject(verified)
})

test('the documented presigned URL verifies', () => {
  const url =
    '/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404'
  expect(verify({ method: 'GET', url, headers: { host: 'examplebucket.s3.amazonaws.com' } })).toMatchObject(verified)
})

/** Returns what the SDK's own signer sends. */
async function sentBySdk(command: GetObjectCommand | PutObjectCommand | ListObjectsV2Command): Promise<Sent> {
  const client = new S3Client({
    endpoint: 'http://localhost:1234/s3',
    region: 'eu-north-1',
    forcePathStyle: true,
    credentials,
  })
  const seen: Sent[] = []
  client.middlewareStack.add(
    (next) => async (args) => {
      const { method, path, query, headers } = args.request as never as {
        method: string
        path: string
        query: Record<string, string>
        headers: Record<string, string>
      }
      const search = Object.entries(query).map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v ?? '')}`)
      seen.push({ method, url: `${path}${search.length > 0 ? `?${search.join('&')}` : ''}`, headers })
      return next(args)
    },
    { step: 'finalizeRequest', priority: 'low', name: 'look' },
  )
  await client.send(command as GetObjectCommand).catch(() => {})
  client.destroy()
  if (!seen[0]) throw new Error('Nothing was sent')
  return seen[0]
}

test.each([
  'plain.txt',
  '../../etc/passwd',
  'a//b',
  'sp ace+plus',
  "q!'()*",
  'ключ/🦊',
  'a%2Fb',
  '/lead',
  'dot/./x',
  '~-_.',
])('what the SDK signs for the key %s verifies to the byte', async (Key) => {
  const sent = await sentBySdk(new GetObjectCommand({ Bucket: 'bucket', Key }))
  expect(readTarget(sent.url, prefix)).toMatchObject({ bucket: 'bucket', key: Key })
  verify(sent)
})

test.each([
  ['a list', new ListObjectsV2Command({ Bucket: 'b', Prefix: 'a b+c/ü&=', Delimiter: '/', StartAfter: "x'(y)*" })],
  ['a put', new PutObjectCommand({ Bucket: 'b', Key: 'k', Body: 'x', Metadata: { one: '  a   b ' }, Tagging: 'a=b' })],
])('%s with every kind of parameter verifies as the SDK signs it', async (_, command) => {
  expect(verify(await sentBySdk(command)).scope).toContain('eu-north-1')
})

test('a URL of the SDK’s presigner verifies behind a proxy, by the name it was signed for', async () => {
  const client = new S3Client({ endpoint: 'https://s3.example.com/s3', region: 'x', forcePathStyle: true, credentials })
  const url = new URL(
    await getSignedUrl(client, new GetObjectCommand({ Bucket: 'b', Key: 'a b' }), { expiresIn: 604_800 }),
  )
  const sent = { method: 'GET', url: `${url.pathname}${url.search}`, headers: { host: 'inner:4000' } }
  expect(() => verify(sent)).toThrow(expect.objectContaining({ code: 'SignatureDoesNotMatch' }))
  expect(verify(sent, ['inner:4000', 's3.example.com']).signature).toBe(url.searchParams.get('X-Amz-Signature'))
})

test('what s3cmd signs with a path in its host verifies: host:H/s3, and the path below it', () => {
  const headers: Record<string, string> = {
    host: 'h:1',
    'x-amz-content-sha256': empty,
    'x-amz-date': '20130524T000000Z',
  }
  const canonical = `GET\n/b/k\n\nhost:h:1/s3\nx-amz-content-sha256:${empty}\nx-amz-date:20130524T000000Z\n\nhost;x-amz-content-sha256;x-amz-date\n${empty}`
  const scope = '20130524/r/s3/aws4_request'
  const digest = createHash('sha256').update(canonical).digest('hex')
  const signature = createHmac('sha256', keyOf({ day: '20130524', region: 'r' } as SignatureClaim))
    .update(`AWS4-HMAC-SHA256\n20130524T000000Z\n${scope}\n${digest}`)
    .digest('hex')
  headers.authorization = `AWS4-HMAC-SHA256 Credential=A/${scope},SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=${signature}`
  expect(verify({ method: 'GET', url: '/s3/b/k', headers })).toMatchObject({ scope, signature })
})

test('a Host that is not signed, and an x-amz header that is not, are refused', () => {
  const unsigned = (headers: Record<string, string>) => () => verify({ method: 'GET', url: '/test.txt', headers })
  const noHost = documented.authorization.replace('host;', '')
  expect(unsigned({ ...documented, authorization: noHost })).toThrow('The Host header must be signed')
  expect(unsigned({ ...documented, 'x-amz-acl': 'public-read' })).toThrow('x-amz-acl was sent and not signed')
})

test.each([
  [15 * 60 - 1, undefined],
  [15 * 60 + 1, 'RequestTimeTooSkewed'],
  [86_400, 'RequestTimeTooSkewed'],
  [-15 * 60 - 1, 'RequestTimeTooSkewed'],
])('a request dated %s seconds ago is met with %s', (seconds, code) => {
  const claim = claimOf({ method: 'GET', url: '/test.txt', headers: documented })
  const check = () => checkTime(claim, new Date(claim.signedAt.getTime() + seconds * 1_000))
  if (code === undefined) check()
  else expect(check).toThrow(expect.objectContaining({ code, status: 403 }))
})

test('without x-amz-date a signed Date is the time of a request', () => {
  const { 'x-amz-date': _, authorization, ...rest } = documented
  const date = 'Fri, 24 May 2013 00:00:00 GMT'
  const signed = authorization.replace('host;', 'date;host;').replace(';x-amz-date', '')
  const claim = claimOf({ method: 'GET', url: '/test.txt', headers: { ...rest, date, authorization: signed } })
  expect(claim).toMatchObject({ timestamp: '20130524T000000Z', signedAt: new Date(date) })
  for (const headers of [
    { ...rest, date, authorization },
    { ...rest, authorization: signed },
    { ...rest, date: 'yesterday', authorization: signed },
  ])
    expect(() => claimOf({ method: 'GET', url: '/test.txt', headers })).toThrow('valid and signed')
})

const presigned = (change: Record<string, string | undefined>) => {
  const query = {
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': 'A/20130524/us-east-1/s3/aws4_request',
    'X-Amz-Date': '20130524T000000Z',
    'X-Amz-Expires': '86400',
    'X-Amz-SignedHeaders': 'host',
    'X-Amz-Signature': 'a'.repeat(64),
    ...change,
  }
  const pairs = Object.entries(query).flatMap(([k, v]) => (v === undefined ? [] : [`${k}=${encodeURIComponent(v)}`]))
  return { method: 'GET', url: `/s3/b/k?${pairs.join('&')}`, headers: { host: 'h' } }
}

test('a presigned URL holds from its date to its expiry and no longer', () => {
  const claim = claimOf(presigned({}))
  const checkAt = (seconds: number) => () => checkTime(claim, new Date(claim.signedAt.getTime() + seconds * 1_000))
  checkAt(86_400)()
  expect(checkAt(86_401)).toThrow('Request has expired')
  expect(checkAt(-901)).toThrow('Request is not valid yet')
})

test.each([
  ['over seven days', { 'X-Amz-Expires': '604801' }],
  ['of no time', { 'X-Amz-Expires': '0' }],
  ['of a negative time', { 'X-Amz-Expires': '-1' }],
  ['without an expiry', { 'X-Amz-Expires': undefined }],
  ['of another algorithm', { 'X-Amz-Algorithm': 'AWS4-HMAC-SHA1' }],
  ['without a signature', { 'X-Amz-Signature': undefined }],
  ['with an upper-case signature', { 'X-Amz-Signature': 'A'.repeat(64) }],
  ['of another service', { 'X-Amz-Credential': 'A/20130524/us-east-1/ec2/aws4_request' }],
  ['of another day than its credential', { 'X-Amz-Date': '20130525T000000Z' }],
  ['of a day that does not exist', { 'X-Amz-Date': '20130230T000000Z' }],
])('a presigned URL %s is an AuthorizationQueryParametersError', (_, change) => {
  expect(() => claimOf(presigned(change))).toThrow(
    expect.objectContaining({ code: 'AuthorizationQueryParametersError', status: 400 }),
  )
})

test.each([
  ['AWS A:c2lnbmF0dXJl', 'InvalidRequest', 'version 2'],
  ['Basic dTpw', 'InvalidRequest', 'AWS4-HMAC-SHA256'],
  ['AWS4-ECDSA-P256-SHA256 Credential=A/1/s3/aws4_request', 'InvalidRequest', 'AWS4-HMAC-SHA256'],
  ['AWS4-HMAC-SHA256 nonsense', 'AuthorizationHeaderMalformed', 'Credential'],
  [
    'AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/s3, SignedHeaders=host, Signature=00',
    'AuthorizationHeaderMalformed',
    '',
  ],
])('Authorization: %s is refused as %s', (authorization, code, message) => {
  expect(() => claimOf({ method: 'GET', url: '/s3/b', headers: { ...documented, authorization } })).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(message) as string }),
  )
})

test('a URL signed by version 2 is refused by a message that says so', () => {
  expect(() => claimOf({ method: 'GET', url: '/s3/b/k?AWSAccessKeyId=A&Signature=x&Expires=1', headers: {} })).toThrow(
    'Signature version 2 is not supported',
  )
})
