import { assert, integer, property, uniqueArray } from 'fast-check'
import { expect, test } from 'vitest'
import { LineBudget } from './line-budget.ts'
import { LogLines, type PrintedLine } from './log-lines.ts'

function read(...chunks: (string | Buffer)[]): PrintedLine[] {
  const lines: PrintedLine[] = []
  const reader = new LogLines('INFO', (line) => lines.push(line))
  for (const chunk of chunks) reader.write(Buffer.from(chunk as string))
  reader.end()
  return lines
}

const line = (message: string, level = 'INFO', requestId?: string) => ({ message, level, requestId })

test('a frame says level and request, and what has none is of the stream', () => {
  expect(read('\x1eWr-1\x1fwarned\nplain\n\x1eD\x1foutside\n\n\r\n')).toEqual([
    line('warned', 'WARN', 'r-1'),
    line('plain'),
    line('outside', 'DEBUG'),
  ])
})

test('a frame ends the line before it, and the last line needs no end', () => {
  expect(read('\x1eIa\x1fbegun\x1eIb\x1fother\n\x1eIa\x1frest')).toEqual([
    line('begun', 'INFO', 'a'),
    line('other', 'INFO', 'b'),
    line('rest', 'INFO', 'a'),
  ])
})

test('after an uncaught error, lines without a frame are errors of its request', () => {
  expect(read('before\n\x1eer-1\x1ffile:1\n\nError: no luck\n')).toEqual([
    line('before'),
    line('file:1', 'ERROR', 'r-1'),
    line('Error: no luck', 'ERROR', 'r-1'),
  ])
})

test('what only looks like a frame is text', () => {
  expect(read(`\x1eXr\x1fa\n\x1eI${'i'.repeat(200)}\x1fb\n\x1ec\n`)).toEqual([
    line('\x1eXr\x1fa'),
    line(`\x1eI${'i'.repeat(200)}\x1fb`),
    line('\x1ec'),
  ])
})

test('bytes that are no text become marks, and NUL goes', () => {
  expect(read(Buffer.from([0x61, 0xff, 0, 0x62, 10]))).toEqual([line('a\uFFFDb')])
})

test('a long line is cut, and the next is whole', () => {
  const [long, next] = read('\x1eEr\x1f', 'x'.repeat(1 << 20), 'y\n', 'next\n')
  expect(long).toEqual({ ...line('x'.repeat(16 * 1024), 'ERROR', 'r'), isCut: true })
  expect(next).toEqual(line('next'))
  expect(read('z'.repeat(16 * 1024))[0]).toEqual(line('z'.repeat(16 * 1024)))
  // A two-byte character whose second byte is beyond the limit.
  expect(read(`z${'é'.repeat(16 * 1024)}`)[0]?.message).toBe(`z${'é'.repeat(8 * 1024 - 1)}`)
})

test('however the bytes are cut into chunks, the lines are the same', () => {
  const text = Buffer.from('\x1eIa\x1fdétail 😀\n\x1eEb\x1fone\ntwo\x1eWc\x1fthree\nfour')
  const whole = read(text)
  assert(
    property(uniqueArray(integer({ min: 1, max: text.length - 1 })), (cuts) => {
      const ends = [...cuts.toSorted((a, b) => a - b), text.length]
      expect(read(...ends.map((end, index) => text.subarray(ends[index - 1] ?? 0, end)))).toEqual(whole)
    }),
  )
})

test('a budget lets some lines pass at once and so many a second, and counts the others', () => {
  let now = 0
  const budget = new LineBudget(10, 100, () => now)
  const print = (count: number) => Array.from({ length: count }, () => budget.take()).filter(Boolean).length
  expect(print(150)).toBe(100)
  expect(budget.takeDropped()).toBe(50)
  expect(budget.takeDropped()).toBe(0)
  now = 2_000
  expect(print(50)).toBe(20)
  now = 3_600_000
  expect(print(150)).toBe(100)
})
