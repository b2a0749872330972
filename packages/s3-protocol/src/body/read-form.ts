import { s3Failure } from '../wire/s3-failure.ts'

/** S3's limit for all fields before the file together. */
const FIELDS_BYTES_MAX = 20 * 1_024
const FIELDS_MAX = 100

const malformed = () => s3Failure('MalformedPOSTRequest')

/** The fields of a form, by lower-case name, and the file after them, which is only read as its bytes are consumed. */
export interface UploadForm {
  fields: ReadonlyMap<string, string>
  /** undefined: the form has no file. */
  file: { name: string; contentType: string | undefined; bytes: AsyncIterable<Buffer> } | undefined
}

/** Reads a source up to a delimiter. */
class Reader {
  readonly #source: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  async #more(): Promise<void> {
    const { value, done } = await this.#source.next()
    if (done) throw malformed()
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value])
  }

  /**
   * Returns everything before the delimiter, and skips that. Throws if it is more than `bytesMax`; bytes that have arrived after
   * the delimiter do not count.
   */
  async until(delimiter: Buffer, bytesMax: number): Promise<Buffer> {
    for (;;) {
      const index = this.#rest.indexOf(delimiter)
      // If it has not been found yet, the delimiter begins after these bytes at the earliest.
      const lengthMin = index >= 0 ? index : this.#rest.length - delimiter.length + 1
      if (lengthMin > bytesMax) throw s3Failure('MaxPostPreDataLengthExceededError')
      if (index >= 0) {
        const part = this.#rest.subarray(0, index)
        this.#rest = this.#rest.subarray(index + delimiter.length)
        return part
      }
      await this.#more()
    }
  }

  /** Streams everything before the delimiter, of any length. Holds back bytes that may be the beginning of the delimiter. */
  async *stream(delimiter: Buffer): AsyncGenerator<Buffer> {
    for (;;) {
      const index = this.#rest.indexOf(delimiter)
      const end = index >= 0 ? index : Math.max(this.#rest.length - delimiter.length + 1, 0)
      if (end > 0) yield this.#rest.subarray(0, end)
      this.#rest = this.#rest.subarray(index >= 0 ? index + delimiter.length : end)
      if (index >= 0) return
      await this.#more()
    }
  }
}

const boundaryOf = (contentType: string): string | undefined => {
  const [, quotedOne, bare] =
    /^multipart\/form-data\s*;.*?\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType) ?? []
  return quotedOne ?? bare
}

/** Reads name, file name and content type from a part's headers. Throws MalformedPOSTRequest. */
function readPartHead(head: string): { name: string; fileName: string | undefined; contentType: string | undefined } {
  const lines = head.split('\r\n').map((line) => line.split(/:(.*)/s))
  const valueOf = (header: string) => lines.find(([name]) => name?.trim().toLowerCase() === header)?.[1]?.trim()
  const disposition = valueOf('content-disposition') ?? ''
  const parameter = (name: string) => {
    const value = new RegExp(`;\\s*${name}="((?:[^"\\\\]|\\\\.)*)"`, 'i').exec(disposition)?.[1]
    return value?.replaceAll(/\\(["\\])/g, '$1').replaceAll('%22', '"')
  }
  const name = parameter('name')
  if (!/^form-data/i.test(disposition) || name === undefined) throw malformed()
  return { name: name.toLowerCase(), fileName: parameter('filename'), contentType: valueOf('content-type') }
}

/**
 * Reads a form as browsers send it (RFC 7578) up to its file: first the fields, at most 20 KiB and 100 of them, then the file as
 * a stream. Later parts are ignored. Why no library does this: docs/decisions/0018-forms-are-read-by-hand.md.
 *
 * Throws MalformedPOSTRequest, MaxPostPreDataLengthExceededError.
 */
export async function readForm(contentType: string, source: AsyncIterable<Buffer>): Promise<UploadForm> {
  const boundary = boundaryOf(contentType)
  if (boundary === undefined) throw s3Failure('MalformedPOSTRequest', 'The body must be multipart/form-data')
  const reader = new Reader(source)
  const opening = await reader.until(Buffer.from(`--${boundary}`), FIELDS_BYTES_MAX)
  if (opening.length > 0) throw malformed()
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  const headEnd = Buffer.from('\r\n\r\n')
  const fields = new Map<string, string>()
  for (let left = FIELDS_BYTES_MAX; ;) {
    // After a boundary either `--` ends the form, or a line break begins the headers of a part.
    const head = (await reader.until(headEnd, left).catch(() => undefined))?.toString()
    if (head === undefined) throw malformed()
    if (head.startsWith('--')) return { fields, file: undefined }
    if (!head.startsWith('\r\n')) throw malformed()
    const { name, fileName, contentType: type } = readPartHead(head.slice(2))
    if (name === 'file')
      return { fields, file: { name: fileName ?? '', contentType: type, bytes: reader.stream(delimiter) } }
    const value = await reader.until(delimiter, left)
    left -= head.length + value.length
    if (left < 0 || fields.size >= FIELDS_MAX) throw s3Failure('MaxPostPreDataLengthExceededError')
    fields.set(name, value.toString())
  }
}
