import { expect, test } from 'vitest'
import { readForm } from './read-form.ts'

const BOUNDARY = 'boundary'
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`

interface Part {
  name: string
  value: string | Buffer
  fileName?: string
  type?: string
}

const partOf = ({ name, value, fileName, type }: Part): Buffer =>
  Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"`),
    Buffer.from(fileName === undefined ? '' : `; filename="${fileName}"`),
    Buffer.from(type === undefined ? '' : `\r\nContent-Type: ${type}`),
    Buffer.from('\r\n\r\n'),
    Buffer.from(value as string),
    Buffer.from('\r\n'),
  ])
const formOf = (...parts: Part[]): Buffer => Buffer.concat([...parts.map(partOf), Buffer.from(`--${BOUNDARY}--\r\n`)])

async function* inPieces(bytes: Buffer, size = bytes.length): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += size) yield bytes.subarray(offset, offset + size)
}

async function read(bytes: Buffer | AsyncIterable<Buffer>, type = TYPE) {
  const { fields, file } = await readForm(type, Buffer.isBuffer(bytes) ? inPieces(bytes) : bytes)
  const content = file && Buffer.concat(await Array.fromAsync(file.bytes)).toString()
  return { fields: Object.fromEntries(fields), file: file && { ...file, bytes: content } }
}

const code = (code: string) => expect.objectContaining({ code }) as Error

test('fields come before the file, and parts after it are ignored', async () => {
  const form = formOf(
    { name: 'Key', value: 'a' },
    { name: 'file', value: 'content', fileName: 'x.txt', type: 'text/plain' },
    { name: 'late', value: 'ignored' },
  )
  expect(await read(form)).toEqual({
    fields: { key: 'a' },
    file: { name: 'x.txt', contentType: 'text/plain', bytes: 'content' },
  })
})

test('a form may be cut at any byte', async () => {
  const file = Buffer.from(`\r\n--${BOUNDARY.slice(0, -1)}\r\n\n--${BOUNDARY}`)
  const form = formOf({ name: 'key', value: '\r\n--bound' }, { name: 'file', value: file, fileName: 'f' })
  for (let size = 1; size < form.length; size++) {
    const { fields, file: formFile } = await read(inPieces(form, size))
    expect(fields, `pieces of ${size}`).toEqual({ key: '\r\n--bound' })
    expect(formFile?.bytes, `pieces of ${size}`).toBe(file.toString())
  }
})

test('the last of several fields of one name counts, and a field is UTF-8 whatever its type', async () => {
  const form = formOf(
    { name: 'a', value: '1' },
    { name: 'A', value: 'ü', type: 'text/plain; charset=iso-8859-1' },
    { name: 'file', value: '' },
  )
  expect((await read(form)).fields).toEqual({ a: 'ü' })
})

test('the part named file is the file, with or without a file name; other parts are fields, even with one', async () => {
  const form = formOf({ name: 'key', value: 'k', fileName: 'key' }, { name: 'file', value: 'bytes' })
  expect(await read(form)).toEqual({ fields: { key: 'k' }, file: { name: '', contentType: undefined, bytes: 'bytes' } })
})

test.each([['text/html; charset=UTF-8'], ['Image/PNG'], [undefined]])(
  'the content type of the file, %s, is what was sent',
  async (type) => {
    const { file } = await read(formOf({ name: 'file', value: '', fileName: 'f', ...(type && { type }) }))
    expect(file?.contentType).toBe(type)
  },
)

test('names are unescaped as browsers and curl escape them, and keep their path and their UTF-8', async () => {
  const form = formOf({ name: 'file', value: '', fileName: 'dir/ü %22a\\"b\\\\.txt' })
  expect((await read(form)).file?.name).toBe('dir/ü "a"b\\.txt')
})

test('fields of 20 KiB or 100 in number are the most', async () => {
  const file = { name: 'file', value: 'x'.repeat(100_000), fileName: 'f' }
  await read(formOf({ name: 'a', value: 'x'.repeat(20_000) }, file))
  await expect(read(formOf({ name: 'a', value: 'x'.repeat(20_481) }, file))).rejects.toEqual(
    code('MaxPostPreDataLengthExceededError'),
  )
  const half = 'x'.repeat(10_240)
  await expect(read(formOf({ name: 'a', value: half }, { name: 'b', value: half }, file))).rejects.toEqual(
    code('MaxPostPreDataLengthExceededError'),
  )
  const many = (count: number) => Array.from({ length: count }, (_, n) => ({ name: `f${n}`, value: '' }))
  await read(formOf(...many(100), file))
  await expect(read(formOf(...many(101), file))).rejects.toEqual(code('MaxPostPreDataLengthExceededError'))
})

test.each([
  ['that ends in its fields', formOf({ name: 'key', value: 'a' }).subarray(0, -8)],
  ['that has no file', formOf({ name: 'key', value: 'a' })],
  ['that ends in its file', partOf({ name: 'file', value: 'x', fileName: 'f' })],
  ['with text before its first boundary', Buffer.concat([Buffer.from('x\r\n'), formOf({ name: 'file', value: '' })])],
  [
    'with a part that has no name',
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--${BOUNDARY}--`),
  ],
  ['with a part that has no disposition', Buffer.from(`--${BOUNDARY}\r\nA: b\r\n\r\nx\r\n--${BOUNDARY}--`)],
  [
    'with a part whose headers are 100 KB',
    formOf({ name: 'key', value: 'a', type: 'x'.repeat(100_000) }, { name: 'file', value: '' }),
  ],
])('a form %s is MalformedPOSTRequest', async (_, bytes) => {
  await expect(read(bytes)).rejects.toEqual(code('MalformedPOSTRequest'))
})

test.each(['application/json', 'multipart/form-data', 'multipart/mixed; boundary=x'])(
  'a body of type %s is no form',
  async (type) => {
    await expect(read(formOf(), type)).rejects.toEqual(code('MalformedPOSTRequest'))
  },
)

test('the file is read no faster than it is taken', async () => {
  let produced = 0
  async function* source() {
    yield formOf({ name: 'file', value: '', fileName: 'f' }).subarray(0, -(`--${BOUNDARY}--\r\n`.length + 2))
    for (; produced < 1_000; produced++) yield Buffer.alloc(65_536)
    yield Buffer.from(`\r\n--${BOUNDARY}--\r\n`)
  }
  const { file } = await readForm(TYPE, source())
  if (!file) throw new Error('no file')
  const bytes = file.bytes[Symbol.asyncIterator]()
  for (let n = 0; n < 3; n++) await bytes.next()
  await new Promise((resolve) => setImmediate(resolve))
  expect(produced).toBeLessThan(8)
})

test('a source that fails in the middle of the file fails its reader with the same error', async () => {
  const broken = new Error('gone')
  async function* source() {
    yield partOf({ name: 'file', value: 'x'.repeat(1_000), fileName: 'f' }).subarray(0, -2)
    throw broken
  }
  await expect(read(source())).rejects.toBe(broken)
})
