import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type Db, isForeignKeyViolation } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { eq, inArray, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { activateBlobs } from '../../storage/objects/activate-blobs.ts'
import { discardBlobs, type NewBlob, receiveBlobs } from '../../storage/objects/receive-body.ts'
import { blobs } from '../../storage/objects/table.ts'
import { deploymentFunctions } from '../deployments/table.ts'
import { artifacts, deploymentFallbacks, deploymentFiles, functionFiles, functionLinks } from './table.ts'

const LOOKED_UP_AT_ONCE = 1_000
/** Files per transaction: each may put up to 16 KiB into the statement itself. */
const STORED_AT_ONCE = 100
const WRITTEN_AT_ONCE = 8
const LINKED_AT_ONCE = 5_000
/** Files up to this size are read without a stream. */
const READ_AT_ONCE = 65_536

/** Content to store, identified by its hash. */
export interface FileContent {
  sha256: Buffer
  bytes: number
  /** Absolute path of the bytes; nobody may change them. */
  source: string
}

/** A file whose content is stored. */
export interface StoredFile extends Omit<FileContent, 'source'> {
  path: string
}

/** A file that a deployment serves. path: below the site's root, without a leading slash. */
export interface ServedFile extends StoredFile {
  contentType: string
}

export interface StoredFiles {
  /** Counts only what was not stored before. */
  newFiles: number
  newBytes: number
}

type StoreDeps = Pick<DeployDeps, 'db' | 'now' | 'blobs' | 'logger'>

const hexOf = (sha256: Buffer): string => sha256.toString('hex')

/** Files that have no artifact yet, sorted by hash. */
async function findMissing({ db }: Pick<DeployDeps, 'db'>, files: Iterable<FileContent>): Promise<FileContent[]> {
  const missing = new Map([...files].map((file) => [hexOf(file.sha256), file]))
  const hashes = [...missing.keys()]
  for (let n = 0; n < hashes.length; n += LOOKED_UP_AT_ONCE) {
    const some = hashes.slice(n, n + LOOKED_UP_AT_ONCE)
    const known = await db.execute<{ hex: string }>(
      sql`select encode(${artifacts.sha256}, 'hex') as hex from ${artifacts}
        where ${artifacts.sha256} = any(select decode(h, 'hex') from json_array_elements_text(${JSON.stringify(some)}::json) h)`,
    )
    for (const { hex } of known) missing.delete(hex)
  }
  return [...missing.values()].toSorted((a, b) => Buffer.compare(a.sha256, b.sha256))
}

/** The blob of an empty file, which yields none when it is received. */
const emptyBlob = (): NewBlob => ({ id: newId(), length: 0, crc32: 0, content: Buffer.alloc(0) })

async function* readSource(source: string, bytes: number): AsyncGenerator<Buffer> {
  if (bytes <= READ_AT_ONCE) yield await readFile(source)
  else yield* createReadStream(source) as AsyncIterable<Buffer>
}

/** Stores the content of a file durably, as one blob that nothing refers to yet. */
async function receiveFile(deps: StoreDeps, { source, bytes }: FileContent): Promise<NewBlob> {
  const { blobs: made } = await receiveBlobs(
    deps,
    readSource(source, bytes),
    { length: bytes, bytesMax: bytes },
    () => {},
  )
  const [blob = emptyBlob(), ...more] = made
  if (more.length === 0 && blob.length === bytes) return blob
  await discardBlobs(deps, made)
  throw new Error(`${source} has ${bytes} bytes and did not become one blob of as many`)
}

async function receiveAll(deps: StoreDeps, files: readonly FileContent[], signal: AbortSignal): Promise<NewBlob[]> {
  const received: NewBlob[] = []
  const queue = files.entries()
  const receiveNext = async () => {
    for (const [n, file] of queue) {
      signal.throwIfAborted()
      received[n] = await receiveFile(deps, file)
    }
  }
  const outcomes = await Promise.allSettled(Array.from({ length: WRITTEN_AT_ONCE }, receiveNext))
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') continue
    await discardBlobs(deps, received.filter(Boolean))
    throw outcome.reason
  }
  return received
}

/**
 * Turns received blobs into artifacts. If another deployment has stored the same content meanwhile, our blob is left to the
 * collector.
 */
async function commitArtifacts(
  deps: StoreDeps,
  files: readonly FileContent[],
  received: readonly NewBlob[],
): Promise<StoredFiles> {
  const time = deps.now()
  const rows = files.map(({ sha256, bytes }, n) => ({ sha256, bytes, blobId: received[n]?.id ?? '', createdAt: time }))
  return deps.db.transaction(async (tx) => {
    await activateBlobs(tx, time, received)
    // Sorted by hash, so that two deployments cannot deadlock.
    const made = await tx
      .insert(artifacts)
      .values(rows)
      .onConflictDoNothing()
      .returning({ blobId: artifacts.blobId, bytes: artifacts.bytes })
    const used = new Set(made.map(({ blobId }) => blobId))
    const lost = rows.filter(({ blobId }) => !used.has(blobId)).map(({ blobId }) => blobId)
    if (lost.length > 0) await tx.update(blobs).set({ state: 'dead', diedAt: time }).where(inArray(blobs.id, lost))
    return { newFiles: made.length, newBytes: made.reduce((sum, { bytes }) => sum + bytes, 0) }
  })
}

/**
 * Stores content that is not stored yet: each once, however many paths share it and whoever stores it concurrently. Safe to
 * repeat. Link the artifacts within an hour; unreferenced ones may be collected after that.
 *
 * signal: ends it between two files, throwing the abort reason. Throws BadGateway (D22).
 */
export async function storeFiles(
  deps: StoreDeps,
  files: Iterable<FileContent>,
  signal: AbortSignal,
): Promise<StoredFiles> {
  const stored: StoredFiles = { newFiles: 0, newBytes: 0 }
  const missing = await findMissing(deps, files)
  for (let n = 0; n < missing.length; n += STORED_AT_ONCE) {
    const some = missing.slice(n, n + STORED_AT_ONCE)
    const received = await receiveAll(deps, some, signal)
    try {
      const { newFiles, newBytes } = await commitArtifacts(deps, some, received)
      stored.newFiles += newFiles
      stored.newBytes += newBytes
    } catch (error) {
      await discardBlobs(deps, received)
      throw error
    }
  }
  return stored
}

/** A file of a Function; path: below the Function's folder. */
interface FunctionFile extends StoredFile {
  isExecutable: boolean
}

/** A Function and its files. */
export interface LinkedFunction {
  row: Omit<typeof deploymentFunctions.$inferInsert, 'deploymentId'>
  files: readonly FunctionFile[]
  /** Link targets, by path below the Function's folder. */
  links: ReadonlyMap<string, string>
}

/** Everything a deployment consists of. */
export interface DeploymentContent {
  served: readonly ServedFile[]
  functions?: readonly LinkedFunction[]
  /** Fallbacks shown until a Prerender Function's first call, by path in the output. */
  fallbacks?: readonly StoredFile[]
}

/**
 * Sets the files and Functions of a deployment, within the transaction that locks its row. Replaces what an earlier attempt left.
 * Referring to an artifact locks its row, so none is deleted while it is being linked.
 *
 * Throws an error for which `isCollected` is true if an artifact was collected since it was stored: store the files again.
 */
export async function linkFiles(
  tx: Db,
  deploymentId: string,
  { served: files, functions = [], fallbacks = [] }: DeploymentContent,
): Promise<void> {
  await tx.delete(deploymentFallbacks).where(eq(deploymentFallbacks.deploymentId, deploymentId))
  await tx.delete(deploymentFiles).where(eq(deploymentFiles.deploymentId, deploymentId))
  await tx.delete(deploymentFunctions).where(eq(deploymentFunctions.deploymentId, deploymentId))
  const served = files.map(({ path, sha256, bytes, contentType }) => ({ path, hex: hexOf(sha256), bytes, contentType }))
  const called = functions.flatMap(({ row: { id }, files }) =>
    files.map(({ path, sha256, bytes, isExecutable }) => ({ id, path, hex: hexOf(sha256), bytes, isExecutable })),
  )
  const shownFirst = fallbacks.map(({ path, sha256, bytes }) => ({ path, hex: hexOf(sha256), bytes }))
  // Sorted by hash, like everywhere that locks artifacts.
  const hashes = [...new Set([...served, ...called, ...shownFirst].map(({ hex }) => hex))].toSorted()
  for (let n = 0; n < hashes.length; n += LINKED_AT_ONCE)
    await tx.execute(sql`select from ${artifacts} where ${artifacts.sha256} = any(
      select decode(h, 'hex') from json_array_elements_text(${JSON.stringify(hashes.slice(n, n + LINKED_AT_ONCE))}::json) h)
      order by ${artifacts.sha256} for key share`)
  for (let n = 0; n < served.length; n += LINKED_AT_ONCE)
    await tx.execute(sql`insert into ${deploymentFiles} (deployment_id, path, sha256, bytes, content_type)
      select ${deploymentId}::uuid, f.path, decode(f.hex, 'hex'), f.bytes, f."contentType"
      from json_to_recordset(${JSON.stringify(served.slice(n, n + LINKED_AT_ONCE))}::json)
        as f(path text, hex text, bytes bigint, "contentType" text)`)
  for (let n = 0; n < shownFirst.length; n += LINKED_AT_ONCE)
    await tx.execute(sql`insert into ${deploymentFallbacks} (deployment_id, path, sha256, bytes)
      select ${deploymentId}::uuid, f.path, decode(f.hex, 'hex'), f.bytes
      from json_to_recordset(${JSON.stringify(shownFirst.slice(n, n + LINKED_AT_ONCE))}::json)
        as f(path text, hex text, bytes bigint)`)
  if (functions.length > 0)
    await tx.insert(deploymentFunctions).values(functions.map(({ row }) => ({ ...row, deploymentId })))
  const links = functions.flatMap(({ row: { id }, links }) =>
    [...links].map(([path, target]) => ({ id, path, target })),
  )
  for (let n = 0; n < links.length; n += LINKED_AT_ONCE)
    await tx.execute(sql`insert into ${functionLinks} (function_id, path, target)
      select l.id, l.path, l.target
      from json_to_recordset(${JSON.stringify(links.slice(n, n + LINKED_AT_ONCE))}::json) as l(id uuid, path text, target text)`)
  for (let n = 0; n < called.length; n += LINKED_AT_ONCE)
    await tx.execute(sql`insert into ${functionFiles} (function_id, path, sha256, bytes, is_executable)
      select f.id, f.path, decode(f.hex, 'hex'), f.bytes, f."isExecutable"
      from json_to_recordset(${JSON.stringify(called.slice(n, n + LINKED_AT_ONCE))}::json)
        as f(id uuid, path text, hex text, bytes bigint, "isExecutable" boolean)`)
}

/** True for an error of `linkFiles` that a retry may avoid. */
export const isCollected = (error: unknown): boolean => isForeignKeyViolation(error)
