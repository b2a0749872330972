import { UnusableOutput } from '@platform/build-output/read-output'
import type { ArchiveReader } from './archive-reader.ts'

const LISTED = 0x02014b50
const END = 0x06054b50
const END_BYTES = 22
const COMMENT_BYTES_MAX = 65_535
const END64 = 0x06064b50
const END64_BYTES = 56
const LOCATOR = 0x07064b50
const LOCATOR_BYTES = 20

const countOf = (n: number, one: string): string => `${n} ${one}${n === 1 ? '' : 's'}`

/**
 * Positions in a buffer of records of an end whose comment reaches exactly to the buffer's end, last first. `last`: of the last
 * record, whatever its comment.
 */
function findEnds(tail: Buffer): { whole: number[]; last: number } {
  const whole: number[] = []
  let last = -1
  for (let index = tail.length - END_BYTES; index >= 0; index--) {
    if (tail.readUInt32LE(index) !== END) continue
    if (last === -1) last = index
    if (index + END_BYTES + tail.readUInt16LE(index + 20) === tail.length) whole.push(index)
  }
  return { whole, last }
}

/** Where the list of entries says it begins, and where it begins if it ends right before the record of the end. */
async function findList(
  archive: ArchiveReader,
  tail: Buffer,
  end: number,
  endAt: number,
): Promise<{ named: number; real: number }> {
  const isZip64 = end >= LOCATOR_BYTES && tail.readUInt32LE(end - LOCATOR_BYTES) === LOCATOR
  const record64At = endAt - LOCATOR_BYTES - END64_BYTES
  if (!isZip64 || record64At < 0) {
    const named = tail.readUInt32LE(end + 16)
    return { named, real: endAt - tail.readUInt32LE(end + 12) }
  }
  const record = await archive.readAt(record64At, END64_BYTES)
  const named = Number(record.readBigUInt64LE(48))
  // A record of another length: it is read from where it says it is.
  if (record.readUInt32LE(0) !== END64) return { named: 0, real: 0 }
  return { named, real: record64At - Number(record.readBigUInt64LE(40)) }
}

async function isListAt(archive: ArchiveReader, position: number, size: number): Promise<boolean> {
  if (position < 0 || position + 4 > size) return false
  return (await archive.readAt(position, 4)).readUInt32LE(0) === LISTED
}

/**
 * Returns how many bytes stand in front of a zip, such as the program of a self-extracting archive, which its offsets do not count.
 * As Info-ZIP and Python read it, the list of entries ends where the record of the end begins.
 *
 * Throws UnusableOutput if more than one reading is possible: two programs that read the same file differently would disagree on
 * what is in it.
 */
export async function findArchiveStart(archive: ArchiveReader, size: number): Promise<number> {
  const tailBytes = Math.min(size, LOCATOR_BYTES + END_BYTES + COMMENT_BYTES_MAX)
  const tail = await archive.readAt(size - tailBytes, tailBytes)
  const { whole, last } = findEnds(tail)
  const [end] = whole
  if (whole.length > 1 || (end !== undefined && last > end))
    throw new UnusableOutput(
      'The comment of the archive holds the record of another end of an archive: make it without a comment',
    )
  if (end === undefined && last !== -1) {
    const after = tail.length - last - END_BYTES - tail.readUInt16LE(last + 20)
    throw new UnusableOutput(
      after > 0
        ? `The file goes on for ${countOf(after, 'byte')} after the end of the archive: upload the zip file alone`
        : `The archive ends ${countOf(-after, 'byte')} too early: upload it again`,
    )
  }
  // Without any end the reader says so.
  if (end === undefined) return 0
  const { named, real } = await findList(archive, tail, end, size - tailBytes + end)
  const before = real - named
  if (before <= 0 || !(await isListAt(archive, real, size))) return 0
  if (await isListAt(archive, named, size))
    throw new UnusableOutput(
      `The archive has two lists of entries, at the bytes ${named} and ${real}: make it anew, with nothing in front of it`,
    )
  return before
}
