import type { Encoding } from '../../deploy/artifacts/artifact-blobs.ts'
import type { Compressors, WholeBody } from './compressors.ts'

/** A longer copy is not kept, so that its answer is sent as it is. */
const COPY_BYTES_MAX = 2_097_152

/** Compressed copies of a body, by encoding. A promise: one is being made. null: it is too long to be kept. */
export type CompressedCopies = Partial<Record<Encoding, Buffer | Promise<Buffer | undefined> | null>>

/** Bytes that the copies take. */
export const sizeOfCopies = (copies: CompressedCopies): number =>
  Object.values(copies).reduce((sum, copy) => sum + (Buffer.isBuffer(copy) ? copy.length : 0), 0)

/**
 * Returns the compressed copy of a body, which is made for the first visitor who wants it; undefined if there is none and the answer
 * is sent as it is. Rejects with the error of `body.read`; the next visitor tries again.
 *
 * onMade: called once for each copy, which counts from then on.
 */
export function copyIn(
  copies: CompressedCopies,
  encoding: Encoding,
  compressors: Compressors,
  body: WholeBody,
  onMade: () => void,
): Buffer | undefined | Promise<Buffer | undefined> {
  const known = copies[encoding]
  if (known !== undefined) return known ?? undefined
  const making = compressors.makeCopy(body, encoding).then(
    (copy) => {
      if (copy === undefined) delete copies[encoding]
      else copies[encoding] = copy.length <= COPY_BYTES_MAX ? copy : null
      if (copies[encoding]) onMade()
      return copies[encoding] ? copy : undefined
    },
    (error: unknown) => {
      delete copies[encoding]
      throw error
    },
  )
  copies[encoding] = making
  return making
}
