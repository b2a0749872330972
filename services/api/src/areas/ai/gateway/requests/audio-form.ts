import { randomUUID } from 'node:crypto'
import type { UploadedAudio } from './uploaded-audio.ts'

/** A form to send to a provider. */
export interface SentForm {
  contentType: string
  bytes: number
  /** Starts from the beginning at each call. */
  body(): AsyncIterable<Uint8Array>
}

/** Escapes text for a quoted parameter, as browsers do. */
const quoted = (text: string): string => text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

const printable = (type: string): string => (/^[\x21-\x7e ]{1,100}$/.test(type) ? type : 'application/octet-stream')

/** Creates `multipart/form-data` from texts and a file (RFC 7578). */
export function createAudioForm(
  fields: readonly (readonly [name: string, value: string])[],
  file: Pick<UploadedAudio, 'name' | 'type' | 'bytes' | 'read'>,
): SentForm {
  const boundary = `form-${randomUUID()}`
  const texts = fields.map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(name)}"\r\n\r\n${value}\r\n`,
  )
  const head = Buffer.from(
    `${texts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted(file.name)}"\r\n` +
      `Content-Type: ${printable(file.type)}\r\n\r\n`,
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    bytes: head.length + file.bytes + tail.length,
    async *body() {
      yield head
      yield* file.read()
      yield tail
    },
  }
}
