import type { ByteRange } from '@platform/service/byte-range'

/**
 * Whose a chunk is. One that was read is the reader's for good, or only until it asks for the next. One that is written is the
 * store's for good, which may free it and leave it empty, or the writer's still.
 */
export type ChunkOwner = 'owned' | 'borrowed'

/**
 * Where runs of bytes live, under random names: no driver ever sees a key or a file name of a user. A blob is written once
 * and never changed. Failures of the store itself are thrown as BadGateway (D22).
 */
export interface Blobs {
  /** How long a blob may get; `undefined` for one whose length is not known before it ends. */
  lengthMax(length: number | undefined): number
  /**
   * Stores what the source yields, durably: resolves when it would survive a loss of power. What the source throws is
   * thrown, and then nothing is left behind. length: bytes, where they are known beforehand. chunks: lent unless said.
   */
  write(id: string, source: AsyncIterable<Buffer>, length?: number, chunks?: ChunkOwner): Promise<void>
  /** Reads no further than its reader. Throws where the blob is not there, or is shorter than the range. */
  read(id: string, range: ByteRange, chunks: ChunkOwner): AsyncIterable<Buffer>
  /** Removes blobs; one that is gone already is no failure. */
  remove(ids: readonly string[]): Promise<void>
  close(): void
}
