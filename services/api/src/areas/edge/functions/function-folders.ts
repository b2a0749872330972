import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { chmod, link, mkdir, readdir, rename, rm, stat, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Db } from '@platform/runtime/database'
import { isUuid } from '@platform/runtime/is-uuid'
import { eq, inArray, sql, sum } from 'drizzle-orm'
import { openArtifactFinder, readArtifact } from '../../deploy/artifacts/artifact-blobs.ts'
import { functionFiles, functionLinks } from '../../deploy/artifacts/table.ts'
import type { Blobs } from '../../storage/objects/blobs.ts'

const FETCHED_AT_ONCE = 16
const UUID_LENGTH = 36
/** Disk space for files on this machine; beyond it, files of Functions without slots are removed. */
const BYTES_MAX = 8 * 1024 ** 3

/** The files of Functions on this machine's disk. */
export interface FunctionFolders {
  /** Returns the folder of a Function's files, fetching them if needed. Its contents never change. Throws BadGateway (D22). */
  prepare(functionId: string): Promise<string>
  /** Removes the least recently prepared folders until the total fits. Folders in use stay. */
  evict(isInUse: (functionId: string) => boolean): Promise<void>
}

interface Options {
  db: Db
  blobs: Blobs
  /** Absolute; used for nothing else. */
  folder: string
  bytesMax?: number
}

const sizeOf = async (path: string): Promise<number | undefined> =>
  stat(path).then(
    ({ size }) => size,
    () => undefined,
  )

/**
 * Keeps the files of Functions: each content once, by its hash, and a folder of hard links for each Function. Whatever survives a
 * restart is reused.
 */
export function openFunctionFolders({ db, blobs, folder, bytesMax = BYTES_MAX }: Options): FunctionFolders {
  const findArtifact = openArtifactFinder(db)
  const contents = join(folder, 'contents')
  const trees = join(folder, 'trees')
  const preparing = new Map<string, Promise<string>>()
  /** Bytes of files by Function, least recently prepared first. */
  const prepared = new Map<string, number>()
  const fetching = new Map<string, Promise<string>>()
  /** While set, no new folder is begun. */
  let tidying: Promise<void> | undefined
  let madeNow = 0
  let isInherited = false

  async function fetchContent(sha256: string, bytes: number, isExecutable: boolean): Promise<string> {
    const path = join(contents, sha256.slice(0, 2), isExecutable ? `${sha256}-x` : sha256)
    // A file of another length was truncated by a power loss.
    if ((await sizeOf(path)) === bytes) return path
    const artifact = await findArtifact(sha256)
    if (!artifact) throw new Error(`The artifact ${sha256} is gone while a Function has it`)
    await mkdir(dirname(path), { recursive: true, mode: 0o755 })
    const making = `${path}.${randomUUID()}`
    try {
      await pipeline(readArtifact({ db, blobs }, artifact.identity), createWriteStream(making, { flags: 'wx' }))
      await chmod(making, isExecutable ? 0o555 : 0o444)
      await rename(making, path)
    } finally {
      await rm(making, { force: true })
    }
    return path
  }

  function contentOf(sha256: string, bytes: number, isExecutable: boolean): Promise<string> {
    const key = `${sha256}${isExecutable}`
    let under = fetching.get(key)
    if (!under) {
      under = fetchContent(sha256, bytes, isExecutable).finally(() => fetching.delete(key))
      fetching.set(key, under)
    }
    return under
  }

  async function make(functionId: string): Promise<string> {
    const path = join(trees, functionId)
    const files = await db
      .select({
        path: functionFiles.path,
        sha256: sql<string>`encode(${functionFiles.sha256}, 'hex')`,
        bytes: functionFiles.bytes,
        isExecutable: functionFiles.isExecutable,
      })
      .from(functionFiles)
      .where(eq(functionFiles.functionId, functionId))
    if (files.length === 0) throw new Error(`The Function ${functionId} has no files`)
    const links = await db
      .select({ path: functionLinks.path, target: functionLinks.target })
      .from(functionLinks)
      .where(eq(functionLinks.functionId, functionId))
    prepared.delete(functionId)
    prepared.set(
      functionId,
      files.reduce((sum, { bytes }) => sum + bytes, 0),
    )
    if ((await sizeOf(path)) !== undefined) return path
    const making = `${path}.${randomUUID()}`
    try {
      const made = new Set<string>()
      const queue = files.values()
      const linkNext = async () => {
        for (const file of queue) {
          const target = join(making, file.path)
          const below = dirname(target)
          if (!made.has(below)) {
            await mkdir(below, { recursive: true, mode: 0o755 })
            made.add(below)
          }
          await link(await contentOf(file.sha256, file.bytes, file.isExecutable), target)
        }
      }
      const outcomes = await Promise.allSettled(Array.from({ length: FETCHED_AT_ONCE }, linkNext))
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
      // Links come after the files, so that no file is written through a link.
      for (const { path: own, target } of links) {
        await mkdir(dirname(join(making, own)), { recursive: true, mode: 0o755 })
        await symlink(target, join(making, own))
      }
      await rename(making, path)
    } catch (error) {
      prepared.delete(functionId)
      await rm(making, { recursive: true, force: true })
      throw error
    }
    return path
  }

  /** Removes contents that no folder links to. */
  async function removeUnlinked(): Promise<void> {
    for (const prefix of await readdir(contents))
      for (const name of await readdir(join(contents, prefix))) {
        const path = join(contents, prefix, name)
        const stats = await stat(path)
        if (stats.nlink === 1) await rm(path, { force: true })
      }
  }

  /** Registers what an earlier process left as least recently prepared, and removes leftovers. */
  async function inherit(): Promise<void> {
    // Unfinished folders are named `<function>.<uuid>`.
    const left = (await readdir(trees).catch(() => [])).filter(
      (name) => !prepared.has(name) && !preparing.has(name.slice(0, UUID_LENGTH)),
    )
    const known = left.length === 0 ? [] : await sizesOf(left.filter(isUuid))
    const sizes = new Map(known.map(({ functionId, bytes }) => [functionId, bytes]))
    for (const name of left) if (!sizes.has(name)) await rm(join(trees, name), { recursive: true, force: true })
    const recent = [...prepared]
    prepared.clear()
    for (const [functionId, bytes] of [...sizes, ...recent]) prepared.set(functionId, bytes)
    isInherited = true
  }

  const sizesOf = (ids: string[]) =>
    db
      .select({ functionId: functionFiles.functionId, bytes: sum(functionFiles.bytes).mapWith(Number) })
      .from(functionFiles)
      .where(inArray(functionFiles.functionId, ids))
      .groupBy(functionFiles.functionId)

  async function prepare(functionId: string): Promise<string> {
    if (tidying) {
      // Whoever started the tidying handles its failure.
      await tidying.catch(() => {})
      return prepare(functionId)
    }
    madeNow += 1
    try {
      await mkdir(trees, { recursive: true, mode: 0o755 })
      return await make(functionId)
    } finally {
      madeNow -= 1
    }
  }

  async function tidy(isInUse: (functionId: string) => boolean): Promise<void> {
    if (!isInherited) await inherit()
    let bytes = 0
    for (const each of prepared.values()) bytes += each
    const before = bytes
    for (const [functionId, size] of prepared) {
      if (bytes <= bytesMax) break
      if (isInUse(functionId) || preparing.has(functionId)) continue
      prepared.delete(functionId)
      await rm(join(trees, functionId), { recursive: true, force: true })
      bytes -= size
    }
    // Content that was fetched but not linked yet must stay.
    if (bytes < before && madeNow === 0) await removeUnlinked()
  }

  return {
    prepare(functionId) {
      let under = preparing.get(functionId)
      if (!under) {
        under = prepare(functionId).finally(() => preparing.delete(functionId))
        preparing.set(functionId, under)
      }
      return under
    },
    evict(isInUse) {
      tidying ??= tidy(isInUse).finally(() => (tidying = undefined))
      return tidying
    },
  }
}
