import { createHash } from 'node:crypto'
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import {
  all,
  createApiKey,
  createApplication,
  createApplicationVariable,
  createBucket,
  createOrganization,
  listApplicationVariables,
  memoryStore,
  Platform,
  s3Config,
  userToken,
} from '@platform/sdk'
import { signInByDevice } from '@platform/sdk/sign-in'
import { approveDevice } from '@platform/testkit/approve-device'
import type { Started } from './launch-for-tests.ts'

/** The smaller one is kept in the database, the larger one in the folder of objects. */
const OBJECT_BYTES = { 'a small object': 500, 'a large object': 100_000 }
const SCOPES = [
  'offline_access',
  'platform:organizations:write',
  'platform:api_keys:write',
  'network:applications:write',
  'network:env_vars:read',
  'network:env_vars:write',
  'network:storage:read',
  'network:storage:write',
]

/** What a write did: acknowledged, or why not. */
export type Outcome = { kind: string; isAcknowledged: true } | { kind: string; isAcknowledged: false; status: unknown }

/**
 * Signs the demo account in and writes by all ways there are to the disk: rows of the API, small and large objects, and renewals of
 * a sign-in at the identity provider.
 */
export async function openWrites({ baseUrl, demo }: Started) {
  const store = memoryStore()
  const signIn = () => signInByDevice({ baseUrl, scopes: SCOPES, store, onCode: (code) => approveDevice(code, demo) })
  await signIn()
  const user = new Platform({ baseUrl, credential: userToken({ store }) })
  const { id: organizationId } = await createOrganization(user, { body: { name: 'Writes' } })
  const { id } = await createApplication(user, { body: { name: 'Writes', organizationId } })
  const place = { applicationId: id, environment: 'production' }
  await createBucket(user, { ...place, body: { name: 'written' } })
  const scopes = ['network:storage:read', 'network:storage:write']
  const key = await createApiKey(user, { body: { name: 'written', applicationId: id, scopes } })
  const s3 = new S3Client({ ...s3Config({ baseUrl, ...key }), maxAttempts: 1 })

  const variables: string[] = []
  const objects = new Map<string, Uint8Array>()
  /** Whether the last renewal was acknowledged: if not, its answer may be lost, and the sign-in with it. */
  let isRenewed = true
  let count = 0
  const once = { retries: 0 }
  const ways: Record<string, (n: number) => Promise<void>> = {
    async 'a variable'(n) {
      const name = `WRITTEN_${n}`
      await createApplicationVariable(user, { id, body: { key: name, value: 'v'.repeat(4_000) } }, once)
      variables.push(name)
    },
    async 'a renewal'() {
      isRenewed = false
      await store.lock(async () => store.write({ ...(await store.read())!, expiresAt: 0 }))
      // Another one, since each keeps its token in memory.
      await new Platform({ baseUrl, credential: userToken({ store }) }).token()
      isRenewed = true
    },
  }
  for (const [kind, bytes] of Object.entries(OBJECT_BYTES))
    ways[kind] = async (n) => {
      const object = { Bucket: 'written', Key: `${bytes}/${n}` }
      const body = createHash('shake256', { outputLength: bytes }).update(String(n)).digest()
      await s3.send(new PutObjectCommand({ ...object, Body: body }))
      objects.set(object.Key, body)
    }

  const write = async (kind: string): Promise<Outcome> => {
    try {
      await ways[kind]!(count++)
      return { kind, isAcknowledged: true }
    } catch (error) {
      const { status, $metadata } = error as { status?: number; $metadata?: { httpStatusCode?: number } }
      return { kind, isAcknowledged: false, status: status ?? $metadata?.httpStatusCode ?? String(error) }
    }
  }
  return {
    kinds: Object.keys(ways),
    write,
    /** One of each kind, at the same time. */
    writeEach: () => Promise.all(Object.keys(ways).map(write)),
    acknowledged: () => variables.length + objects.size,
    /** Throws if anything acknowledged is missing or differs. */
    async verify(): Promise<void> {
      const wasRenewed = isRenewed
      await ways['a renewal']!(0).catch((error: { status?: number }) => {
        if (wasRenewed || error.status !== 401) throw error
        return signIn()
      })
      const found = new Set<string>()
      for await (const variable of all(listApplicationVariables, user, { id })) found.add(variable.key)
      const missing = variables.filter((name) => !found.has(name))
      for (const [name, body] of objects) {
        const { Body } = await s3.send(new GetObjectCommand({ Bucket: 'written', Key: name }))
        if (!Buffer.from(body).equals((await Body?.transformToByteArray()) ?? Buffer.alloc(0))) missing.push(name)
      }
      if (missing.length > 0) throw new Error(`Acknowledged and lost: ${missing.join(', ')}`)
    },
    close: () => s3.destroy(),
  }
}
