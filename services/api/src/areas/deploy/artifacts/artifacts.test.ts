// engines: postgres, s3
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, inArray } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createHash } from 'node:crypto'
import { deploymentOf, newDeployment } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { deployments } from '../deployments/table.ts'
import { collectGarbage } from '../../storage/objects/maintenance/collect-garbage.ts'
import { verifyStorage } from '../../storage/objects/maintenance/verify-storage.ts'
import { blobs } from '../../storage/objects/table.ts'
import { openArtifactCollector } from './collect-artifacts.ts'
import { removeFiles } from './remove-files.ts'
import { type FileContent, isCollected, linkFiles, storeFiles } from './store-files.ts'
import { artifactEncodings, artifacts, deploymentFiles } from './table.ts'

let platform: TestPlatform
let ana: Owner
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'artifacts-test-'))
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await rm(folder, { recursive: true, force: true })
})

const never = new AbortController().signal
let files = 0
async function newFile(bytes = randomBytes(100)): Promise<FileContent> {
  const source = join(folder, `${files++}`)
  await writeFile(source, bytes)
  return { sha256: createHash('sha256').update(bytes).digest(), bytes: bytes.length, source }
}
const served = (file: FileContent, path = 'index.html') => ({ ...file, path, contentType: 'text/html' })
const link = (id: string, file: FileContent) =>
  platform.api.db.transaction((tx) => linkFiles(tx, id, { served: [served(file)] }))
const hasArtifact = async ({ sha256 }: FileContent) =>
  (await platform.api.db.$count(artifacts, eq(artifacts.sha256, sha256))) === 1
const stateOf = async (blobId: string) =>
  (await platform.api.db.select().from(blobs).where(eq(blobs.id, blobId)))[0]?.state
async function collect(hoursLater = 0): Promise<void> {
  platform.clock.advance(hoursLater * 3_600_000 + 1)
  await openArtifactCollector()(platform.api)
  await collectGarbage(platform.api)
  platform.clock.advance(-hoursLater * 3_600_000 - 1)
}

test('content that no deployment has is kept for an hour and then goes, with its bytes and encodings', async () => {
  const small = await newFile()
  const large = await newFile(randomBytes(50_000))
  expect(await storeFiles(platform.api, [small, large, small], never)).toEqual({ newFiles: 2, newBytes: 50_100 })
  const rows = await platform.api.db
    .select()
    .from(artifacts)
    .where(inArray(artifacts.sha256, [small.sha256, large.sha256]))
  const encoded = await newFile()
  await storeFiles(platform.api, [encoded], never)
  const [encodedRow] = await platform.api.db.select().from(artifacts).where(eq(artifacts.sha256, encoded.sha256))
  // Nothing else refers to the blob of an encoding.
  await platform.api.db
    .insert(artifactEncodings)
    .values({ sha256: small.sha256, encoding: 'br', blobId: encodedRow?.blobId ?? '', bytes: 100 })
  await platform.api.db.delete(artifacts).where(eq(artifacts.sha256, encoded.sha256))
  const ids = [...rows.map(({ blobId }) => blobId), encodedRow?.blobId ?? '']
  await collect()
  expect(await Promise.all(ids.map(stateOf))).toEqual(['live', 'live', 'live'])
  expect((await verifyStorage(platform.api)).unreferenced).toBe(0)
  await collect(1)
  expect(await Promise.all([small, large].map(hasArtifact))).toEqual([false, false])
  expect(await Promise.all(ids.map(stateOf))).toEqual(['dead', 'dead', 'dead'])
  expect(await storeFiles(platform.api, [small], never)).toMatchObject({ newFiles: 1 })
})

test('content that a deployment has is kept, until the files of the deployment go', async () => {
  const { id } = await newDeployment(platform, ana, { status: 'ACTIVE' })
  const file = await newFile()
  await storeFiles(platform.api, [file], never)
  await link(id, file)
  await collect(1_000)
  expect(await hasArtifact(file)).toBe(true)
  const retiredAt = platform.api.now()
  await platform.api.db
    .update(deployments)
    .set({ retiredAt, output: {} as never })
    .where(eq(deployments.id, id))
  await removeFiles(platform.api)
  expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, id))).toBe(1)
  platform.clock.advance(3_600_001)
  await removeFiles(platform.api)
  expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, id))).toBe(0)
  expect((await deploymentOf(platform, id)).filesRemovedAt).not.toBeNull()
  await collect(1)
  platform.clock.advance(-3_600_001)
  expect(await hasArtifact(file)).toBe(false)
})

test('the files of a deployment that failed after they were linked go at once', async () => {
  const { id } = await newDeployment(platform, ana, { status: 'FAILED' })
  const file = await newFile()
  await storeFiles(platform.api, [file], never)
  await link(id, file)
  await platform.api.db
    .update(deployments)
    .set({ output: {} as never })
    .where(eq(deployments.id, id))
  await removeFiles(platform.api)
  expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, id))).toBe(0)
})

test.each(['link', 'collect'])(
  'linking and collecting at once, %s first: it is linked and there, or collected and said so',
  async (first) => {
    const { id } = await newDeployment(platform, ana, { status: 'ACTIVE' })
    const file = await newFile()
    await storeFiles(platform.api, [file], never)
    const linking = () =>
      link(id, file).then(
        () => 'linked',
        (error: unknown) => {
          if (isCollected(error)) return 'collected'
          throw error
        },
      )
    const collecting = () => collect(1).then(() => 'swept', String)
    const outcomes = await holding(
      platform.databaseUrl,
      async (sql) => sql`select 1 from artifacts where sha256 = ${file.sha256} for update`,
      first === 'link' ? [linking, collecting] : [collecting, linking],
    )
    expect(outcomes).toContain('swept')
    const linked = outcomes.includes('linked')
    expect(await hasArtifact(file)).toBe(linked)
    expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, id))).toBe(linked ? 1 : 0)
  },
)

test('a deployment takes its artifacts in the order of the collector, so that neither waits for the other', async () => {
  const { id } = await newDeployment(platform, ana, { status: 'BUILDING' })
  const [first, second] = [await newFile(), await newFile()].toSorted((a, b) => Buffer.compare(a.sha256, b.sha256)) as [
    FileContent,
    FileContent,
  ]
  await storeFiles(platform.api, [first, second], never)
  const lock = (file: FileContent) => platform.api.db.select().from(artifacts).where(eq(artifacts.sha256, file.sha256))
  const [, free] = await holding(
    platform.databaseUrl,
    (sql) => sql`select from artifacts where sha256 = ${first.sha256} for update`,
    [
      () =>
        platform.api.db.transaction((tx) => linkFiles(tx, id, { served: [served(second, 'a'), served(first, 'b')] })),
      async () => {
        const rows = await lock(second).for('update', { skipLocked: true })
        await lock(first).for('update')
        return rows
      },
    ],
  )
  expect(free).toHaveLength(1)
})
