import { createHash } from 'node:crypto'

/** Bytes that no two places have alike. bytes: a multiple of 4. */
export function content(bytes: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(bytes / 4)
  for (let n = 0; n < words.length; n += 1) words[n] = Math.imul(n, 2_654_435_761)
  return new Uint8Array(words.buffer)
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
