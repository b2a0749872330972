import * as fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { createSseScanner, EventTooLarge, type SseEvent } from './sse-scanner.ts'

const eventBytesMax = 10_000

function scan(chunks: readonly Uint8Array[]): { events: SseEvent[]; rest: Buffer } {
  const scanner = createSseScanner({ eventBytesMax })
  return { events: chunks.flatMap((chunk) => scanner.push(chunk)), rest: scanner.rest() }
}

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const positions = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b)
  return [...positions, bytes.length].map((end, index) => bytes.subarray(positions[index - 1] ?? 0, end))
}

/** Reads the events of a complete text as the HTML standard specifies. */
function readWhole(text: string): { event: string | undefined; data: string | undefined }[] {
  const lines = text
    .replace(/^\uFEFF/, '')
    .replaceAll('\r\n', '\n')
    .replaceAll('\r', '\n')
    .split('\n')
  lines.pop()
  const events: { event: string | undefined; data: string | undefined }[] = []
  let event = ''
  let data: string | undefined
  for (const line of lines) {
    if (line === '') {
      events.push({ event: event || undefined, data })
      event = ''
      data = undefined
      continue
    }
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? []
    if (name === 'event') event = value
    if (name === 'data') data = data === undefined ? value : `${data}\n${value}`
  }
  return events
}

const piece = fc.oneof(
  fc.constantFrom('\n', '\r', '\r\n', '\n\n', '\r\r', '\r\n\r\n', '\r\n\r', '\uFEFF', ':', ' ', 'data', 'event: x'),
  fc.constantFrom('data: {"a":1}\n\n', 'data:x\r\n\r\n', 'event: e\ndata: é€🎉\ndata\n\n', ': ping\n\n', 'id: 1\r'),
  fc.string({ unit: 'binary', maxLength: 8 }),
)
const stream = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(''))

test('any split of the bytes gives the same events, whose bytes are what was pushed', () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat(), { maxLength: 40 }), (text, cuts) => {
      const bytes = Buffer.from(text)
      const whole = scan([bytes])
      expect(scan(split(bytes, cuts))).toEqual(whole)
      expect(scan(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(whole)
      expect(Buffer.concat([...whole.events.map((event) => event.bytes), whole.rest])).toEqual(bytes)
    }),
    { numRuns: 2000 },
  )
})

test('the events are those of a reader of the whole text', () => {
  fc.assert(
    fc.property(stream, (text) => {
      // An unterminated last line, so that no carriage return at the end of the stream waits for a line feed.
      const bytes = Buffer.from(`${text}x`)
      const read = scan([bytes]).events.map(({ event, data }) => ({ event, data }))
      expect(read).toEqual(readWhole(bytes.toString('utf8')))
    }),
    { numRuns: 2000 },
  )
})

test('an event has its name, its joined data and its bytes', () => {
  const text = ': hello\nevent: delta\ndata: one\ndata:two\ndata\nid: 4\n\n'
  expect(scan([Buffer.from(text)]).events).toEqual([{ bytes: Buffer.from(text), event: 'delta', data: 'one\ntwo\n' }])
})

test('a comment has no data', () => {
  expect(scan([Buffer.from(': ping\n\n')]).events).toEqual([
    { bytes: Buffer.from(': ping\n\n'), event: undefined, data: undefined },
  ])
})

test('bytes that are not UTF-8 become replacement characters and stay in the bytes', () => {
  const bytes = Buffer.concat([Buffer.from('data: a'), Buffer.from([0xc3, 0x28, 0xff]), Buffer.from('\n\n')])
  expect(scan([bytes]).events).toEqual([{ bytes, event: undefined, data: 'a\uFFFD(\uFFFD' }])
})

test.each([
  ['a byte order mark', [0xef, 0xbb, 0xbf], 2],
  ['a part of one', [0xef, 0xbb], 1],
])('%s at the start of the stream is part of a line only where it is not whole', (_, mark, count) => {
  expect(scan([Buffer.from([...mark, 0x0a, 0x0a])]).events).toHaveLength(count)
})

test('an event of CRLF lines has its last line feed, also when it comes by itself', () => {
  const { events } = scan([Buffer.from('data: a\r\n\r'), Buffer.from('\n')])
  expect(events.map(({ bytes }) => bytes.toString())).toEqual(['data: a\r\n\r\n'])
})

test('an event of CR lines is complete with its last byte', () => {
  const scanner = createSseScanner({ eventBytesMax })
  expect(scanner.push(Buffer.from('data: a\r\r')).map(({ data }) => data)).toEqual(['a'])
})

test('whole events are views of the chunk', () => {
  const chunk = Buffer.from('data: a\n\ndata: b\n\n')
  expect(scan([chunk]).events.map(({ bytes }) => bytes.buffer === chunk.buffer)).toEqual([true, true])
})

test('what is kept of a chunk is a copy', () => {
  const scanner = createSseScanner({ eventBytesMax })
  const chunk = Buffer.from('data: a')
  scanner.push(chunk)
  chunk.fill('x')
  expect(scanner.push(Buffer.from('\n\n')).map(({ data }) => data)).toEqual(['a'])
})

test.each([
  ['in one chunk', 100],
  ['byte by byte', 1],
])('an event may have the most bytes and not one more, %s', (_, chunkBytes) => {
  const push = (text: string): SseEvent[] => {
    const scanner = createSseScanner({ eventBytesMax: 20 })
    const bytes = Buffer.from(text)
    const starts = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, index) => index * chunkBytes)
    return starts.flatMap((start) => scanner.push(bytes.subarray(start, start + chunkBytes)))
  }
  expect(push(`data: ${'a'.repeat(12)}\n\n`)).toHaveLength(1)
  expect(() => push(`data: ${'a'.repeat(13)}\n\n`)).toThrow(EventTooLarge)
  expect(() => push('a'.repeat(21))).toThrow(EventTooLarge)
})

test('a scanner that met too large an event takes nothing more', () => {
  const scanner = createSseScanner({ eventBytesMax: 20 })
  expect(() => scanner.push(Buffer.alloc(21))).toThrow(EventTooLarge)
  expect(() => scanner.push(Buffer.from('\n\n'))).toThrow(EventTooLarge)
})

test('an event that comes byte by byte is copied a linear number of times', () => {
  const copy = vi.spyOn(Buffer.prototype, 'copy')
  const scanner = createSseScanner({ eventBytesMax: 300_000 })
  for (let byte = 0; byte < 100_000; byte += 1) scanner.push(Uint8Array.of(0x61))
  const bytesCopied = copy.mock.results.reduce((sum, { value }) => sum + Number(value), 0)
  copy.mockRestore()
  expect(scanner.rest()).toHaveLength(100_000)
  expect(bytesCopied).toBeLessThan(4 * 100_000)
})
