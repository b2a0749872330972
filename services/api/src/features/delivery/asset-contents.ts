import { LRUCache } from 'lru-cache'
import type { Deps } from '../../deps.ts'
import { type ArtifactBlob, readInlineBlob } from '../artifacts/artifact-blobs.ts'

/** What is kept in memory: 128 files of the largest kind, or most pages and scripts of hundreds of sites. */
const BYTES_MAX = 268_435_456
/** A longer file is read from where it is each time, and never whole. */
export const KEPT_BYTES_MAX = 2_097_152
/** What an entry costs besides its bytes. */
const BYTES_OF_ENTRY = 200

/** The content of files that are asked for often, by blob. A blob never changes. */
export interface AssetContents {
  /** What is in memory. */
  find(blobId: string): Buffer | undefined
  /** Reads a blob of at most KEPT_BYTES_MAX and keeps it; those who ask meanwhile wait for the same. Throws BadGateway (D22). */
  load(blob: ArtifactBlob): Promise<Buffer>
}

/** Keeps 256 MiB of contents, the least recently used making room. */
export function openAssetContents(deps: Pick<Deps, 'db' | 'blobs'>): AssetContents {
  const contents = new LRUCache<string, Buffer>({
    maxSize: BYTES_MAX,
    sizeCalculation: ({ length }) => length + BYTES_OF_ENTRY,
  })
  const loading = new Map<string, Promise<Buffer>>()

  async function read({ id, length, isInline }: ArtifactBlob): Promise<Buffer> {
    try {
      const content = isInline
        ? await readInlineBlob(deps, id)
        : Buffer.concat(await Array.fromAsync(deps.blobs.read(id, { start: 0, end: length - 1 }, 'owned')))
      contents.set(id, content)
      return content
    } finally {
      loading.delete(id)
    }
  }

  return {
    find: (blobId) => contents.get(blobId),
    load(blob) {
      let under = loading.get(blob.id)
      if (!under) loading.set(blob.id, (under = read(blob)))
      return under
    },
  }
}
