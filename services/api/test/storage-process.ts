import { S3Client } from '@aws-sdk/client-s3'
import { freePort } from '@platform/testkit/free-port'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { onTestFinished } from 'vitest'
import { composeApi as compose } from '@platform/testing/api'
import { loadConfig } from '../src/config.ts'
import type { UserActor } from '../src/http/actor.ts'
import { createApiKey } from '../src/areas/credentials/api-keys/api-keys.ts'
import { createApplication } from '../src/areas/tenancy/applications/applications.ts'
import { reachEnvironmentOf } from '../src/areas/tenancy/applications/reach.ts'
import { createOrganization } from '../src/areas/tenancy/organizations/organizations.ts'
import { createBucket } from '../src/areas/storage/objects/buckets.ts'

const main = new URL('../src/main.ts', import.meta.url)
const scopes = [
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:deployments:read',
  'network:deployments:trigger',
]

/**
 * The API as a process of its own on these objects, an application with a bucket and a key in it, and an S3 client that signs
 * with the key. now: of the deps that are for looking at things from below. Everything ends with the test.
 */
export async function storageProcess(objectsUrl: string, { now = () => new Date() } = {}) {
  const edgePort = await freePort()
  const env = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    EDGE_PORT: String(edgePort),
    S3_PORT: '0',
    OBJECTS_URL: objectsUrl,
    // As the launcher starts it.
    NODE_OPTIONS: '--max-semi-space-size=2',
    MALLOC_ARENA_MAX: '2',
  })
  const { deps, close } = await compose(loadConfig({ ...env, PORT: '1' }), { now })
  onTestFinished(close)
  const by: UserActor = {
    kind: 'user',
    userId: 'u',
    clientId: 'c',
    scopes: new Set(scopes),
    authenticatedAt: undefined,
  }
  const organization = await createOrganization(deps, by, { name: 'Storage' })
  const application = await createApplication(deps, organization, { name: 'Storage' })
  const environment = await reachEnvironmentOf({ deps, actor: by }, application, 'production')
  const bucket = await createBucket(deps, application, environment, { name: 'files', visibility: 'public' })
  const key = await createApiKey(deps, by, application, { name: 'files', scopes })
  const origin = env.PUBLIC_URL ?? ''
  const s3 = new S3Client({
    endpoint: `${origin}/s3`,
    region: 'local',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: key.id, secretAccessKey: key.secret },
  })
  onTestFinished(() => s3.destroy())
  return {
    deps,
    organization,
    application,
    edgePort,
    bucket,
    key,
    origin,
    /** Where the bucket's objects are delivered by path. */
    deliveredAt: `http://localhost:${edgePort}/_objects/${bucket.slug}`,
    s3,
    async start() {
      const service = startServiceProcess(main, env, 'all')
      await untilStatus(`${origin}/.well-known/jwks.json`, 200)
      return service
    },
    /** A token of the key. */
    async token(): Promise<string> {
      const answer = await fetch(`${origin}/oauth2/token`, {
        method: 'POST',
        body: new URLSearchParams({ grant_type: 'client_credentials', client_id: key.id, client_secret: key.secret }),
      })
      return ((await answer.json()) as { access_token: string }).access_token
    },
  }
}
