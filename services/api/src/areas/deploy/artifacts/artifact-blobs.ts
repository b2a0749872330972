import { batchPerTick } from '@platform/runtime/batch-per-tick'
import type { Db } from '@platform/runtime/database'
import { eq, inArray, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { DeployDeps } from '../deps.ts'
import { blobs } from '../../storage/objects/table.ts'
import { artifactEncodings, artifacts } from './table.ts'

/** Encodings in which artifacts are stored, best first. */
export const encodings = ['br', 'gzip'] as const
export type Encoding = (typeof encodings)[number]

/** Where an artifact's bytes are. isInline: in the blob's row. */
export interface ArtifactBlob {
  id: string
  length: number
  isInline: boolean
}

/** An artifact's content uncompressed, and compressed if that saves enough. */
export interface ArtifactBlobs {
  identity: ArtifactBlob
  encoded: Partial<Record<Encoding, ArtifactBlob>>
  /** False until it has been compressed, which may never happen. */
  isCompressed: boolean
}

/** Finds artifacts by SHA-256 in hex; look-ups of one tick share a statement. Resolves to undefined if there is none. */
export function openArtifactFinder(db: Db): (sha256: string) => Promise<ArtifactBlobs | undefined> {
  const encodedBlobs = alias(blobs, 'encoded_blobs')
  return batchPerTick<string, ArtifactBlobs>(async (keys) => {
    const rows = await db
      .select({
        sha256: sql<string>`encode(${artifacts.sha256}, 'hex')`,
        identity: { id: blobs.id, length: blobs.length, isInline: sql<boolean>`${blobs.content} is not null` },
        encoding: artifactEncodings.encoding,
        encoded: {
          id: encodedBlobs.id,
          length: encodedBlobs.length,
          isInline: sql<boolean>`${encodedBlobs.content} is not null`,
        },
      })
      .from(artifacts)
      .innerJoin(blobs, eq(blobs.id, artifacts.blobId))
      .leftJoin(artifactEncodings, eq(artifactEncodings.sha256, artifacts.sha256))
      .leftJoin(encodedBlobs, eq(encodedBlobs.id, artifactEncodings.blobId))
      .where(
        inArray(
          artifacts.sha256,
          [...new Set(keys)].map((key) => Buffer.from(key, 'hex')),
        ),
      )
    const blobsByHash = new Map<string, ArtifactBlobs>()
    for (const { sha256, identity, encoding, encoded } of rows) {
      const one = blobsByHash.get(sha256) ?? { identity, encoded: {}, isCompressed: false }
      if (encoding !== null) one.isCompressed = true
      if (encoding !== null && encoded?.id) one.encoded[encoding] = encoded
      blobsByHash.set(sha256, one)
    }
    return keys.map((key) => blobsByHash.get(key))
  })
}

/** Streams the content of a referenced artifact. Throws BadGateway (D22). */
export async function* readArtifact(
  { db, blobs: store }: Pick<DeployDeps, 'db' | 'blobs'>,
  { id, length, isInline }: ArtifactBlob,
): AsyncGenerator<Buffer> {
  if (isInline) yield await readInlineBlob({ db }, id)
  else if (length > 0) yield* store.read(id, { start: 0, end: length - 1 }, 'owned')
}

/** The bytes of a blob that is stored in its row. Throws if it was deleted. */
export async function readInlineBlob({ db }: Pick<DeployDeps, 'db'>, id: string): Promise<Buffer> {
  const [row] = await db.select({ content: blobs.content }).from(blobs).where(eq(blobs.id, id))
  if (!row?.content) throw new Error(`Blob ${id} is gone while it was read`)
  return row.content
}
