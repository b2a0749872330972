import type { ChecksumAlgorithm } from './checksum.ts'

/** The field of a CRC: polynomials over GF(2), bits reversed, so the highest bit is the constant term. */
interface Field {
  bits: number
  polynomial: bigint
}

const fields: Partial<Record<ChecksumAlgorithm, Field>> = {
  CRC32: { bits: 32, polynomial: 0xedb88320n },
  CRC32C: { bits: 32, polynomial: 0x82f63b78n },
  CRC64NVME: { bits: 64, polynomial: 0x9a6c9329ac4bc9b5n },
}

/** a · b modulo the polynomial. */
function multiply({ bits, polynomial }: Field, a: bigint, b: bigint): bigint {
  let product = 0n
  for (let mask = 1n << BigInt(bits - 1), factor = b; mask > 0n; mask >>= 1n) {
    if (a & mask) product ^= factor
    factor = factor & 1n ? (factor >> 1n) ^ polynomial : factor >> 1n
  }
  return product
}

/** x to the power of 8 · length: the factor by which appending that many bytes multiplies a CRC. */
function shiftBy(field: Field, length: number): bigint {
  let power = 1n << BigInt(field.bits - 1)
  // x⁸
  let square = 1n << BigInt(field.bits - 9)
  for (let left = BigInt(length); left > 0n; left >>= 1n) {
    if (left & 1n) power = multiply(field, power, square)
    square = multiply(field, square, square)
  }
  return power
}

/**
 * Computes the CRC of concatenated parts from the CRCs of the parts, without reading a byte again. Digests and result are
 * big-endian, as S3 writes them. Parts of equal length, which all but the last usually have, cost one multiplication each.
 *
 * Throws for an algorithm that is not a CRC.
 */
export function combineCrcs(
  algorithm: ChecksumAlgorithm,
  parts: readonly { digest: Buffer; length: number }[],
): Buffer {
  const field = fields[algorithm]
  if (!field) throw new Error(`${algorithm} cannot be combined`)
  const shifts = new Map<number, bigint>()
  let sum = 0n
  for (const { digest, length } of parts) {
    let shift = shifts.get(length)
    if (shift === undefined) {
      shift = shiftBy(field, length)
      shifts.set(length, shift)
    }
    sum = multiply(field, sum, shift) ^ BigInt(`0x${digest.toString('hex')}`)
  }
  return Buffer.from(sum.toString(16).padStart(field.bits / 4, '0'), 'hex')
}
