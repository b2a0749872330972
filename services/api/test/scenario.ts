import { randomBytes } from 'node:crypto'
import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import type { ServedRequest } from '../src/areas/observe/request-logs/write.ts'
import { commitObject, type NewObject, type StoredObject } from '../src/areas/storage/objects/commit-object.ts'
import { setQuota } from '../src/areas/tenancy/products/quotas.ts'
import { receiveBody } from '../src/areas/storage/objects/receive-body.ts'

/** Somebody with an organization and an application in it, and a token of every scope. */
export interface Owner {
  person: Person
  token: string
  organizationId: string
  applicationId: string
}

/** Letters and digits that no other call gives. */
export const unique = (): string => randomBytes(6).toString('hex')

/** Creates through the API what most tests begin with. person: somebody who may own any number of organizations from then on. */
export async function newOwner(platform: TestPlatform, person?: Person): Promise<Owner> {
  const who = person ?? (await platform.person())
  const token = await who.token(everyScope)
  const organization = await platform.call(token, 'POST /organizations', { name: `Org ${unique()}` })
  if (person) await setQuota(platform.api, organization.body.id as string, 'organizations_per_owner', 10_000)
  const application = await platform.call(token, 'POST /applications', {
    organizationId: organization.body.id,
    name: `App ${unique()}`,
  })
  if (application.status !== 201) throw new Error(`No application: ${application.text}`)
  return { person: who, token, organizationId: organization.body.id, applicationId: application.body.id }
}

export interface Key {
  id: string
  secret: string
  token: string
}

/** Creates an API key and exchanges it. */
export async function newKey(
  platform: TestPlatform,
  owner: Pick<Owner, 'token' | 'applicationId'>,
  scopes: readonly string[],
): Promise<Key> {
  const made = await platform.call(owner.token, 'POST /api-keys', {
    name: 'test',
    applicationId: owner.applicationId,
    scopes,
  })
  if (made.status !== 201) throw new Error(`No key: ${made.text}`)
  const { id, secret } = made.body as Key
  return { id, secret, token: await tokenOf(platform, id, secret) }
}

/** Exchanges a credential. more: of the request, such as a narrower scope. */
export async function tokenOf(
  platform: TestPlatform,
  id: string,
  secret: string,
  more: Record<string, string> = {},
): Promise<string> {
  // From an address of its own: without a bearer header an address may send 600 requests only (A §8). Tests of that use 198.18.
  const address = `198.19.${[...randomBytes(2)].join('.')}`
  const exchanged = await exchange(platform, id, secret, more, { 'x-forwarded-for': address })
  if (exchanged.status !== 200) throw new Error(`No token: ${exchanged.text}`)
  return (exchanged.body as { access_token: string }).access_token
}

/** client_credentials at the API's token endpoint. */
export const exchange = (
  platform: TestPlatform,
  clientId: string,
  clientSecret: string,
  more: Record<string, string> = {},
  headers: Record<string, string> = {},
) =>
  platform.call(
    null,
    'POST /oauth2/token',
    new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret,
      ...more,
    }).toString(),
    {
      'content-type': 'application/x-www-form-urlencoded',
      ...headers,
    },
  )

/** A request that an application was sent just now, as whoever serves it would tell the log. */
export function servedRequest(options: Pick<ServedRequest, 'applicationId'> & Partial<ServedRequest>): ServedRequest {
  const startedAt = options.startedAt ?? new Date()
  return {
    method: 'GET',
    hostname: 'shop.apps.example.com',
    path: '/',
    query: '',
    protocol: 'HTTP/1.1',
    status: 200,
    requestBodyBytes: 0,
    responseBodyBytes: 5,
    bytesSent: 105,
    startedAt,
    completedAt: new Date(startedAt.getTime() + 12),
    requestHeaders: {},
    responseHeaders: {},
    ...options,
  }
}

/** Stores an object as every door does. */
export async function storeObject(
  { api }: Pick<TestPlatform, 'api'>,
  bucketId: string,
  key: string,
  content: Buffer | string,
  condition?: NewObject['condition'],
): Promise<StoredObject> {
  const bytes = Buffer.from(content)
  async function* body() {
    for (let n = 0; n < bytes.length; n += 65_536) yield bytes.subarray(n, n + 65_536)
  }
  const { blobs, length, md5, sha256 } = await receiveBody(api, body(), { length: bytes.length, bytesMax: 1e9 })
  const etag = md5.toString('hex')
  const facts = { key, contentType: 'text/plain', contentLength: length, etag, md5, sha256 }
  return commitObject(api, bucketId, { ...facts, blobs, condition })
}
