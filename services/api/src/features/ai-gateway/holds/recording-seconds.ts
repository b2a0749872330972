import type { UploadedAudio } from '../requests/uploaded-audio.ts'

const HEAD_BYTES = 36
/** What the samples of a WAV file are that is not compressed: integers, or floating-point numbers. */
const PCM = new Set([1, 3])

/** The first bytes of a file. */
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
 * How long a recording is at most, in seconds; undefined where its file does not say for sure, as compressed ones do not: silence takes
 * next to no bytes.
 */
export async function recordingSeconds(file: Pick<UploadedAudio, 'read' | 'bytes'>): Promise<number | undefined> {
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
  const bytesPerSecond = channels * sampleRate * Math.floor(bits / 8)
  if (!PCM.has(format) || bytesPerSecond === 0) return undefined
  return file.bytes / bytesPerSecond
}
