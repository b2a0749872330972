import { setTimeout as sleep } from 'node:timers/promises'
import { one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import type { TestPlatform } from '@platform/testing/platform'
import { and, asc, eq, sql } from 'drizzle-orm'
import {
  createFunctionCredential,
  storeFunctionCredential,
} from '../src/areas/credentials/api-keys/function-credential.ts'
import { hostnames } from '../src/areas/tenancy/applications/hostnames-table.ts'
import { environments, type EnvironmentSlug } from '../src/areas/tenancy/applications/table.ts'
import { buildLogs, deploymentFunctions, deployments } from '../src/areas/deploy/deployments/table.ts'
import type { Deployment } from '../src/areas/deploy/deployments/transitions.ts'
import { activateBlobs } from '../src/areas/storage/objects/activate-blobs.ts'
import { receiveBody } from '../src/areas/storage/objects/receive-body.ts'
import { uploadBlobs, uploads } from '../src/areas/storage/objects/table.ts'
import { type Key, type Owner, tokenOf, unique } from './scenario.ts'
import { type ZipEntry, zipOf } from './zip.ts'

type Api = Pick<TestPlatform, 'api'>

/** The parts of an archive as an upload that is complete. */
async function uploadArchive({ api }: Api, archive: Buffer, partBytes: number): Promise<string> {
  const time = api.now()
  const id = newId()
  await api.db.insert(uploads).values({
    id,
    kind: 'deployment',
    key: id,
    contentType: 'application/zip',
    headers: {},
    metadata: {},
    tags: {},
    state: 'ready',
    expiresAt: new Date(time.getTime() + 86_400_000),
    createdAt: time,
    updatedAt: time,
  })
  for (let part = 1; (part - 1) * partBytes < archive.length; part++) {
    const bytes = archive.subarray((part - 1) * partBytes, part * partBytes)
    async function* body() {
      yield bytes
    }
    await using received = await receiveBody(api, body(), { bytesMax: 1e9 })
    await api.db.transaction(async (tx) => {
      await activateBlobs(tx, time, received.blobs)
      await tx.insert(uploadBlobs).values(
        received.blobs.map(({ id: blobId, length }, n) => ({
          uploadId: id,
          part,
          n,
          blobId,
          length,
          uploadedAt: time,
        })),
      )
    })
    received.keep()
  }
  return id
}

interface NewDeployment {
  /** Entries of an archive, or its bytes; none: nothing was uploaded. */
  archive?: readonly ZipEntry[] | Buffer
  environment?: EnvironmentSlug
  rootDirectory?: string
  status?: Deployment['status']
  partBytes?: number
}

/** A deployment as the control plane leaves it: QUEUED with a job, unless another status is asked for. */
export async function newDeployment(
  platform: Api,
  owner: Pick<Owner, 'organizationId' | 'applicationId'>,
  { archive, environment = 'production', rootDirectory, status = 'QUEUED', partBytes = 5_000_000 }: NewDeployment,
): Promise<Deployment> {
  const { api } = platform
  const bytes = archive === undefined || Buffer.isBuffer(archive) ? archive : zipOf(archive)
  const uploadId = bytes ? await uploadArchive(platform, bytes, partBytes) : null
  const time = api.now()
  return api.db.transaction(async (tx) => {
    const rows = await tx
      .update(environments)
      .set({ lastSeq: sql`${environments.lastSeq} + 1` })
      .where(and(eq(environments.applicationId, owner.applicationId), eq(environments.slug, environment)))
      .returning()
    const { id: environmentId, lastSeq: seq } = one(rows)
    const made = await tx
      .insert(deployments)
      .values({
        id: newId(),
        organizationId: owner.organizationId,
        applicationId: owner.applicationId,
        environmentId,
        seq,
        status,
        label: `site-${unique()}`,
        rootDirectory: rootDirectory ?? null,
        createdBy: { type: 'user', id: newId() },
        uploadId,
        createdAt: time,
        updatedAt: time,
      })
      .returning()
    const { id, label } = one(made)
    const hostname = { id: newId(), type: 'DEPLOYMENT', source: 'system', createdAt: time } as const
    await tx.insert(hostnames).values({ ...hostname, applicationId: owner.applicationId, deploymentId: id, label })
    if (status === 'QUEUED') await api.builds.enqueue(tx, one(made).id)
    return one(made)
  })
}

export async function deploymentOf({ api }: Api, id: string): Promise<Deployment> {
  return one(await api.db.select().from(deployments).where(eq(deployments.id, id)))
}

/** Waits until a deployment is as asked. Throws with its log where patience ends. */
export async function until(
  platform: Api,
  id: string,
  isSo: (deployment: Deployment) => boolean,
  patienceMs = 240_000,
): Promise<Deployment> {
  for (const deadline = Date.now() + patienceMs; ; await sleep(5)) {
    const deployment = await deploymentOf(platform, id)
    if (isSo(deployment)) return deployment
    if (Date.now() > deadline) throw new Error(`Still ${deployment.status}: ${await logOf(platform, id)}`)
  }
}

/** Waits until a deployment is ACTIVE or FAILED. */
export const untilEnded = (platform: Api, id: string): Promise<Deployment> =>
  until(platform, id, ({ status }) => status === 'ACTIVE' || status === 'FAILED')

/** The build log as text, a line for each line. */
export async function logOf({ api }: Api, id: string): Promise<string> {
  const rows = await api.db
    .select()
    .from(buildLogs)
    .where(eq(buildLogs.deploymentId, id))
    .orderBy(asc(buildLogs.createdAt))
  return rows.map(({ type, message }) => message.replaceAll(/^/gm, `${type} `)).join('\n')
}

export async function environmentOf(
  { api }: Api,
  { applicationId }: Pick<Owner, 'applicationId'>,
  slug: EnvironmentSlug = 'production',
): Promise<typeof environments.$inferSelect> {
  return one(
    await api.db
      .select()
      .from(environments)
      .where(and(eq(environments.applicationId, applicationId), eq(environments.slug, slug))),
  )
}

/** A deployment and the credential of its Functions, exchanged. */
export interface TestFunction extends Key {
  deploymentId: string
  environmentId: string
}

/** Gives an application an ACTIVE deployment with a credential, as its provisioning does, and exchanges that. */
export async function newFunction(
  platform: TestPlatform,
  owner: Pick<Owner, 'organizationId' | 'applicationId'>,
  environment: EnvironmentSlug = 'production',
): Promise<TestFunction> {
  const { api } = platform
  const deployment = await newDeployment(platform, owner, { environment, status: 'PROVISIONING' })
  const credential = await createFunctionCredential(api, deployment)
  await api.db.transaction((tx) => storeFunctionCredential(tx, api.now(), credential))
  await api.db.update(deployments).set({ status: 'ACTIVE' }).where(eq(deployments.id, deployment.id))
  const { clientId: id, secret } = credential
  const { environmentId } = deployment
  return { id, secret, token: await tokenOf(platform, id, secret), deploymentId: deployment.id, environmentId }
}

/** An ACTIVE deployment whose Functions have rows and no files, for what only looks them up. Answers their ids, in the order of the paths. */
export async function deployFunctions(
  platform: Api,
  owner: Pick<Owner, 'organizationId' | 'applicationId'>,
  paths: readonly string[],
): Promise<{ deploymentId: string; ids: string[] }> {
  const { id: deploymentId } = await newDeployment(platform, owner, { status: 'ACTIVE' })
  const rows = paths.map((path) => ({
    id: newId(),
    deploymentId,
    path,
    kind: 'handler' as const,
    handler: 'index.js',
    isWeb: false,
    hasHelpers: false,
    environment: {},
  }))
  if (rows.length > 0) await platform.api.db.insert(deploymentFunctions).values(rows)
  return { deploymentId, ids: rows.map(({ id }) => id) }
}

/** A file of an archive; an object is written as JSON. */
export const sourceFile = (name: string, content: string | object): ZipEntry => ({
  name,
  content: typeof content === 'string' ? content : JSON.stringify(content),
})

/** Deploys source and returns the ended deployment, with its log and its host. */
export async function buildSource(
  platform: Api,
  place: Pick<Owner, 'organizationId' | 'applicationId'>,
  more: NewDeployment,
) {
  const { id } = await newDeployment(platform, place, more)
  const ended = await untilEnded(platform, id)
  return { ...ended, log: await logOf(platform, id), host: `${ended.label}.${platform.api.appsUrl.host}` }
}
