import { LRUCache } from 'lru-cache'
import type { EdgeDeps } from '../deps.ts'
import { type ArtifactBlob, readInlineBlob } from '../../deploy/artifacts/artifact-blobs.ts'

/** Memory for contents: 128 files of the largest kind, or most pages and scripts of hundreds of sites. */
const BYTES_MAX = 268_435_456
/** Longer files are read from the store each time, and never as a whole. */
export const KEPT_BYTES_MAX = 2_097_152
/** Overhead of an entry. */
const BYTES_OF_ENTRY = 200

/** The contents of popular files, by blob. A blob never changes. */
export interface AssetContents {
  /** Looks in memory only. */
  find(blobId: string): Buffer | undefined
  /** Reads a blob of at most KEPT_BYTES_MAX and caches it; concurrent callers share the read. Throws BadGateway (D22). */
  load(blob: ArtifactBlob): Promise<Buffer>
}

/** Caches 256 MiB of contents; the least recently used are evicted. */
export function openAssetContents(deps: Pick<EdgeDeps, 'db' | 'blobs'>): AssetContents {
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
