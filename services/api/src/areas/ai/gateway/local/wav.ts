/** The format and length of a WAV file. */
export interface WavFormat {
  channels: number
  sampleRate: number
  bitsPerSample: number
  seconds: number
}

const chunkOf = (name: string, content: Buffer): Buffer => {
  const head = Buffer.alloc(8)
  head.write(name, 0, 'latin1')
  head.writeUInt32LE(content.length, 4)
  // Chunks start at even offsets.
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)])
}

/**
 * Writes a WAV file with one channel of 16-bit samples.
 *
 * samples: little-endian. comment: ASCII, stored in the file as its ICMT.
 */
export function writeWav(samples: Buffer, sampleRate: number, comment: string): Buffer {
  const format = Buffer.alloc(16)
  format.writeUInt16LE(1, 0)
  format.writeUInt16LE(1, 2)
  format.writeUInt32LE(sampleRate, 4)
  format.writeUInt32LE(sampleRate * 2, 8)
  format.writeUInt16LE(2, 12)
  format.writeUInt16LE(16, 14)
  const information = Buffer.concat([Buffer.from('INFO'), chunkOf('ICMT', Buffer.from(`${comment}\0`, 'latin1'))])
  const chunks = [chunkOf('fmt ', format), chunkOf('LIST', information), chunkOf('data', samples)]
  return chunkOf('RIFF', Buffer.concat([Buffer.from('WAVE'), ...chunks]))
}

/**
 * Reads the header of a WAV file.
 *
 * head: the first bytes, at least up to the start of the samples. fileBytes: size of the whole file; a length beyond it, as in a
 * streamed recording, is cut to it. Returns undefined for anything but WAV.
 */
export function readWav(head: Buffer, fileBytes: number): WavFormat | undefined {
  if (head.toString('latin1', 0, 4) !== 'RIFF' || head.toString('latin1', 8, 12) !== 'WAVE') return undefined
  let format: (Omit<WavFormat, 'seconds'> & { bytesPerSecond: number }) | undefined
  for (let offset = 12; offset + 8 <= head.length;) {
    const name = head.toString('latin1', offset, offset + 4)
    const length = head.readUInt32LE(offset + 4)
    const start = offset + 8
    if (name === 'fmt ' && length >= 16 && start + 16 <= head.length)
      format = {
        channels: head.readUInt16LE(start + 2),
        sampleRate: head.readUInt32LE(start + 4),
        bytesPerSecond: head.readUInt32LE(start + 8),
        bitsPerSample: head.readUInt16LE(start + 14),
      }
    if (name === 'data') {
      if (!format || format.bytesPerSecond === 0) return undefined
      const { bytesPerSecond, ...rest } = format
      return { ...rest, seconds: Math.min(length, Math.max(0, fileBytes - start)) / bytesPerSecond }
    }
    offset = start + length + (length % 2)
  }
  return undefined
}
