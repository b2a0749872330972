import type { ByteRange } from '@platform/service/byte-range'

/**
 * Who owns a chunk's memory. Reading: an owned chunk is the reader's for good, a borrowed one only until the next is requested.
 * Writing: an owned chunk is the store's, which may free it and leave it empty; a borrowed one stays the writer's.
 */
export type ChunkOwner = 'owned' | 'borrowed'

/**
 * Stores runs of bytes under random names: no driver ever sees a user's key or file name. A blob is written once and never
 * changed. Failures of the store itself are thrown as BadGateway (D22).
 */
export interface Blobs {
  /** Maximum length of a blob; `length` is undefined if it is not known before the blob ends. */
  lengthMax(length: number | undefined): number
  /**
   * Stores what the source yields, durably: resolves when it would survive a power loss. If the source throws, rethrows and
   * leaves nothing behind. length: in bytes, if known in advance. chunks: borrowed by default.
   */
  write(id: string, source: AsyncIterable<Buffer>, length?: number, chunks?: ChunkOwner): Promise<void>
  /** Reads no further ahead than its reader. Throws if the blob is missing, or shorter than the range. */
  read(id: string, range: ByteRange, chunks: ChunkOwner): AsyncIterable<Buffer>
  /** Removes blobs; ignores missing ones. */
  remove(ids: readonly string[]): Promise<void>
  /** Checks at little cost whether the store answers and grants access. Rejects with the reason if not. */
  check(): Promise<void>
  close(): void
}
