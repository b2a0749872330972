import type { UploadedAudio } from '../requests/uploaded-audio.ts'

const HEAD_BYTES = 36
/** Uncompressed sample formats of WAV files: integers, or floating-point numbers. */
const PCM = new Set([1, 3])
const FORMAT_BYTES = new Set([16, 18])
const CHANNELS_MAX = 8
/** Per channel, in hertz. */
const RATE_MIN = 1_000
const RATE_MAX = 384_000
const SAMPLE_BITS = new Set([8, 16, 24, 32, 64])

/** Returns the first bytes of a file. */
async function headOf(file: Pick<UploadedAudio, 'read'>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of file.read()) {
    chunks.push(chunk)
    length += chunk.length
    if (length >= HEAD_BYTES) break
  }
  return Buffer.concat(chunks)
}

/**
 * Returns the maximum length of a recording, in seconds; undefined if its file does not reliably show it. Compressed files do not:
 * silence needs next to no bytes.
 */
export async function recordingSeconds(
  file: Pick<UploadedAudio, 'read' | 'bytes' | 'name'>,
): Promise<number | undefined> {
  // Many providers go by the name, and would find something else behind a WAV header.
  if (!/\.wav$/i.test(file.name)) return undefined
  const head = await headOf(file)
  if (
    head.length < HEAD_BYTES ||
    head.toString('latin1', 0, 4) !== 'RIFF' ||
    head.toString('latin1', 8, 16) !== 'WAVEfmt '
  )
    return undefined
  const [format, channels, sampleRate, bits] = [
    head.readUInt16LE(20),
    head.readUInt16LE(22),
    head.readUInt32LE(24),
    head.readUInt16LE(34),
  ]
  const isPlain = FORMAT_BYTES.has(head.readUInt32LE(16)) && PCM.has(format) && SAMPLE_BITS.has(bits)
  const isHeard = channels >= 1 && channels <= CHANNELS_MAX && sampleRate >= RATE_MIN && sampleRate <= RATE_MAX
  return isPlain && isHeard ? file.bytes / ((channels * sampleRate * bits) / 8) : undefined
}
