import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import type { OutputManifest } from '@platform/build-output/manifest'
import { newId } from '@platform/runtime/new-id'
import type { TestPlatform } from '@platform/testing/platform'
import { and, eq, sql } from 'drizzle-orm'
import { environments, type EnvironmentSlug } from '../src/areas/tenancy/applications/table.ts'
import { artifacts, deploymentFiles } from '../src/areas/deploy/artifacts/table.ts'
import { storeCrons } from '../src/areas/deploy/deployments/crons.ts'
import { type DeploymentStatus, deployments } from '../src/areas/deploy/deployments/table.ts'
import { hostnames } from '../src/areas/tenancy/applications/hostnames-table.ts'
import { activateBlobs } from '../src/areas/storage/objects/activate-blobs.ts'
import { receiveBlobs } from '../src/areas/storage/objects/receive-body.ts'
import type { Owner } from './scenario.ts'

type Platform = Pick<TestPlatform, 'api' | 'edgeUrl'>

/** A deployment as the worker leaves it behind, and where it answers. */
export interface Deployed {
  id: string
  environmentId: string
  seq: number
  /** With the port. */
  host: string
}

interface Deploying {
  /** By path: text, or bytes with their type. */
  files?: Record<string, string | { content: Buffer | string; contentType: string }>
  environment?: EnvironmentSlug
  status?: DeploymentStatus
  /** False: it is not made the environment's current one. */
  isCurrent?: boolean
  output?: Partial<OutputManifest>
}

const typeOf = (path: string): string =>
  path.endsWith('.html')
    ? 'text/html; charset=utf-8'
    : path.endsWith('.js')
      ? 'text/javascript; charset=utf-8'
      : 'application/octet-stream'

/** Stores content once, in a blob of the real store. */
async function storeArtifact({ api }: Pick<Platform, 'api'>, content: Buffer): Promise<Buffer> {
  const sha256 = createHash('sha256').update(content).digest()
  const [known] = await api.db.select().from(artifacts).where(eq(artifacts.sha256, sha256))
  if (known) return sha256
  const body = (async function* () {
    yield content
  })()
  const received = await receiveBlobs(api, body, { length: content.length, bytesMax: content.length }, () => {})
  // An empty file has a blob as well, since its row has to name one.
  const options = received.blobs.length > 0 ? received.blobs : [{ id: newId(), length: 0, crc32: 0, content }]
  await api.db.transaction(async (tx) => {
    await activateBlobs(tx, api.now(), options)
    await tx
      .insert(artifacts)
      .values({ sha256, blobId: options[0]?.id ?? '', bytes: content.length, createdAt: api.now() })
      .onConflictDoNothing()
  })
  return sha256
}

/** Makes a deployment the environment's current one, as its activation does. */
export async function makeCurrent(
  { api }: Pick<Platform, 'api'>,
  { id, environmentId }: Pick<Deployed, 'id' | 'environmentId'>,
) {
  await api.db
    .update(environments)
    .set({
      currentDeploymentId: id,
      currentSeq: sql`${environments.lastSeq} + 1`,
      lastSeq: sql`${environments.lastSeq} + 1`,
    })
    .where(eq(environments.id, environmentId))
}

/** Inserts what the worker leaves behind of a deployment: rows, artifacts and a hostname. */
export async function deploy(
  platform: Platform,
  owner: Pick<Owner, 'organizationId' | 'applicationId'>,
  { files = {}, environment = 'production', status = 'ACTIVE', isCurrent = status === 'ACTIVE', output }: Deploying,
): Promise<Deployed> {
  const { api } = platform
  const { db } = api
  const { organizationId, applicationId } = owner
  const [row] = await db
    .update(environments)
    .set({ lastSeq: sql`${environments.lastSeq} + 1` })
    .where(and(eq(environments.applicationId, applicationId), eq(environments.slug, environment)))
    .returning()
  if (!row) throw new Error('The application has no such environment')
  const id = newId()
  const label = `site-${randomBytes(4).toString('hex')}`
  const time = api.now()
  await db.insert(deployments).values({
    id,
    organizationId,
    applicationId,
    environmentId: row.id,
    seq: row.lastSeq,
    status,
    label,
    createdBy: { type: 'user', id: newId() },
    output: {
      version: 1,
      kind: 'static',
      routes: [],
      wildcard: [],
      site: { redirects: [], headers: [] },
      functions: {},
      ...output,
    },
    activatedAt: status === 'ACTIVE' ? time : null,
    createdAt: time,
    updatedAt: time,
  })
  await storeCrons(db, id, output?.crons ?? [])
  for (const [path, bytes] of Object.entries(files)) {
    const content = Buffer.from(typeof bytes === 'string' ? bytes : bytes.content)
    const sha256 = await storeArtifact(platform, content)
    const contentType = typeof bytes === 'string' ? typeOf(path) : bytes.contentType
    await db.insert(deploymentFiles).values({ deploymentId: id, path, sha256, bytes: content.length, contentType })
  }
  await db.insert(hostnames).values({
    id: newId(),
    applicationId,
    type: 'DEPLOYMENT',
    label,
    source: 'system',
    deploymentId: id,
    createdAt: time,
  })
  const deployed = { id, environmentId: row.id, seq: row.lastSeq, host: `${label}.${api.appsUrl.host}` }
  if (isCurrent) await makeCurrent(platform, deployed)
  return deployed
}

/** Gives an application a hostname that serves what its environment has; answers it with the port. */
export async function giveHostname(
  { api }: Pick<Platform, 'api'>,
  applicationId: string,
  type: 'APP' | 'BRANCH' = 'APP',
) {
  const name = `app-${randomBytes(5).toString('hex')}x`
  const label = type === 'BRANCH' ? `${name}--preview` : name
  const row = { id: newId(), applicationId, type, label, source: 'user' as const, createdAt: api.now() }
  await api.db.insert(hostnames).values(row)
  return `${label}.${api.appsUrl.host}`
}

export interface Got {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  text: string
}

/** Asks the edge for a path of a host, whether that resolves here or not. */
export async function visit(
  { edgeUrl }: Pick<Platform, 'edgeUrl'>,
  host: string,
  path = '/',
  { method = 'GET', headers = {}, body }: { method?: string; headers?: OutgoingHttpHeaders; body?: string } = {},
): Promise<Got> {
  const { port } = new URL(edgeUrl)
  const sent = request({ port, host: 'localhost', method, path, headers: { host, ...headers } }).end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const received = Buffer.concat((await answer.toArray()) as Buffer[])
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: received, text: received.toString() }
}
