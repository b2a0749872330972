import type { IncomingMessage } from 'node:http'
import { Busboy } from '@fastify/busboy'
import { AiError } from '@platform/errors/ai-error'
import { receiveBody } from './read-request.ts'
import { openUploadedAudio, type UploadedAudio } from './uploaded-audio.ts'

const FIELDS_MAX = 100
const FIELD_BYTES_MAX = 65_536
/** For a part that is a file only by its type. */
const NAME_DEFAULT = 'file'

/** A form: its texts in order, and its file. */
export interface AudioForm {
  fields: readonly (readonly [name: string, value: string])[]
  file: UploadedAudio | undefined
}

const malformed = (message: string) =>
  new AiError(400, 'invalid_request_error', 'invalid_multipart', message, { headers: { connection: 'close' } })

/**
 * Reads `multipart/form-data` with one file, which goes to disk. Throws AiError if the form is malformed, too large or has another
 * file, and whatever `take` throws; then nothing of it is left on disk.
 *
 * take: called with the memory that the fields need, in bytes.
 */
export async function readAudioForm(
  incoming: IncomingMessage,
  bytesMax: number,
  take: (bytes: number) => void,
): Promise<AudioForm> {
  const fields: [string, string][] = []
  let opening: Promise<UploadedAudio> | undefined
  /** The pending write: it limits how fast the body is read. */
  let writing: Promise<unknown> = Promise.resolve()
  let failure: Error | undefined
  const fail = (error: unknown) => void (failure ??= error as Error)
  let parser: InstanceType<typeof Busboy>
  try {
    parser = new Busboy({
      headers: { ...incoming.headers, 'content-type': incoming.headers['content-type'] ?? '' },
      limits: { fields: FIELDS_MAX, fieldSize: FIELD_BYTES_MAX, files: 2, fieldNameSize: 256 },
    })
  } catch {
    throw malformed('The form has no boundary')
  }
  parser
    .on('field', (name, value, isNameCut, isValueCut) => {
      // The parser's types ignore that a part may have no name.
      if ((name as string | undefined) === undefined) return fail(malformed('A part of the form has no name'))
      if (isNameCut || isValueCut) return fail(malformed(`A field of the form is longer than ${FIELD_BYTES_MAX} bytes`))
      try {
        take(Buffer.byteLength(name) + Buffer.byteLength(value))
        fields.push([name, value])
      } catch (error) {
        fail(error)
      }
    })
    .on('fieldsLimit', () => fail(malformed(`The form has more than ${FIELDS_MAX} fields`)))
    .on('file', (name, stream, fileName, _encoding, type) => {
      // If the form ends within its file, an unhandled error would end the process.
      stream.on('error', () => fail(malformed('The form is malformed')))
      if (name !== 'file' || opening) {
        fail(malformed('Expected one file, in the field file'))
        stream.resume()
        return
      }
      opening = openUploadedAudio(fileName ?? NAME_DEFAULT, type)
      writing = opening.catch(fail)
      stream.on('data', (chunk: Buffer) => {
        writing = writing.then(async () => (await opening)?.write(chunk)).catch(fail)
      })
    })
  const parsed = new Promise<void>((resolve) => {
    parser.once('finish', resolve).once('error', () => {
      fail(malformed('The form is malformed'))
      resolve()
    })
  })
  try {
    await receiveBody(incoming, bytesMax, (chunk) => {
      if (failure) throw failure
      parser.write(chunk)
      incoming.pause()
      void writing.then(() => incoming.resume())
    })
    parser.end()
    await parsed
    await writing
    if (failure) throw failure
    return { fields, file: await opening }
  } catch (error) {
    await writing
    await (await opening?.catch(() => undefined))?.[Symbol.asyncDispose]()
    throw error
  }
}
