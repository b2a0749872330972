import { expect, test } from 'vitest'
import { isGap, type LogLine, LogLines } from '../src/log/lines.ts'

const line = (n: number, level: LogLine['level'] = 'INFO'): LogLine => ({
  id: `line-${n}`,
  at: new Date(Date.UTC(2026, 0, 1) + n).toISOString(),
  level,
  text: `text ${n}`,
})
const range = (from: number, end: number): LogLine[] => Array.from({ length: end - from }, (_, n) => line(from + n))

/** Frames that come when they are called for. */
function newFrames() {
  const waiting: (() => void)[] = []
  return {
    next: (run: () => void) => void waiting.push(run),
    paint() {
      for (const run of waiting.splice(0)) run()
    },
  }
}

const newLines = (): LogLines => new LogLines(() => {})
const textsOf = (lines: LogLines): string[] =>
  Array.from({ length: lines.size }, (_, index) => {
    const row = lines.row(index)
    return row === undefined ? 'nothing' : isGap(row) ? `gap of ${row.gap}` : row.text
  })

test('a log drops the lines that a page and the stream behind it both have', () => {
  const lines = newLines()
  lines.append(range(0, 100))
  for (let n = 90; n < 110; n++) lines.append([line(n)])
  lines.append(range(50, 60))
  expect(textsOf(lines)).toEqual(range(0, 110).map(({ text }) => text))
})

test('a log orders lines that come late, once each, and keeps the rows of its errors', () => {
  const lines = newLines()
  lines.append([...range(0, 3), line(6, 'ERROR')])
  lines.append([line(5), line(4, 'ERROR'), line(5), line(1), line(7)])
  expect(textsOf(lines)).toEqual(['text 0', 'text 1', 'text 2', 'text 4', 'text 5', 'text 6', 'text 7'])
  expect(lines.errorRows).toEqual([3, 5])
  expect([lines.lastId, lines.lastAt]).toEqual([line(7).id, line(7).at])
})

test('lines of the same millisecond are ordered by their ids', () => {
  const lines = newLines()
  const { at } = line(0)
  lines.append([
    { ...line(0), id: 'b', at },
    { ...line(1), id: 'a', at },
    { ...line(0), id: 'b', at },
  ])
  expect(textsOf(lines)).toEqual(['text 1', 'text 0'])
})

test('a log says that rows moved only when a line did not come last', () => {
  const lines = newLines()
  lines.append([line(0), line(2)])
  expect(lines.arrangement).toBe(0)
  lines.append([line(1)])
  expect(lines.arrangement).toBe(1)
  lines.append([line(1), line(2)])
  expect(lines.arrangement).toBe(1)
})

test('the version of a log is raised once a frame, however many lines come, and not for doubles', () => {
  const frames = newFrames()
  const lines = new LogLines(frames.next)
  for (const each of range(0, 500)) lines.append([each])
  expect(lines.version.value).toBe(0)
  frames.paint()
  expect(lines.version.value).toBe(1)
  lines.append(range(0, 500))
  frames.paint()
  expect(lines.version.value).toBe(1)
})

test('a gap is a row that counts in the numbers behind it', () => {
  const lines = newLines()
  lines.append(range(0, 2))
  lines.addGap(15)
  lines.addGap(5)
  lines.append([line(30), line(31)])
  expect(textsOf(lines)).toEqual(['text 0', 'text 1', 'gap of 20', 'text 30', 'text 31'])
  expect([0, 1, 2, 3, 4].map((row) => lines.numberOf(row))).toEqual([1, 2, 3, 23, 24])
  expect([1, 2, 3, 22, 23, 24, 25, 0].map((number) => lines.rowOfNumber(number))).toEqual([
    0,
    1,
    2,
    2,
    3,
    4,
    undefined,
    undefined,
  ])
})

test('lines that come for a gap are taken off its count, and a gap that is filled is gone', () => {
  const lines = newLines()
  lines.append([line(0)])
  lines.addGap(3)
  lines.append([line(4)])
  lines.append([line(1)])
  expect(textsOf(lines)).toEqual(['text 0', 'text 1', 'gap of 2', 'text 4'])
  lines.append([line(2), line(3)])
  expect(textsOf(lines)).toEqual(['text 0', 'text 1', 'text 2', 'text 3', 'text 4'])
})

test('a row is found again after others came before it', () => {
  const lines = newLines()
  lines.addGap(2)
  lines.append([line(5), line(9)])
  lines.addGap(7)
  const rows = [0, 1, 2, 3].map((index) => lines.row(index))
  lines.append([line(6), line(7), line(8)])
  expect(rows.map((row) => row && lines.rowOf(row))).toEqual([0, 1, 5, 6])
})

test('a log of 100,000 lines takes the earlier ones page by page from the end', () => {
  const lines = newLines()
  for (let page = 99; page >= 0; page--) lines.append(range(page * 1_000, (page + 1) * 1_000))
  expect(lines.size).toBe(100_000)
  expect(lines.row(77_776)).toEqual(line(77_776))
})

test('a gap stands behind the line that is named for it, adds to one that is there, and is filled from its beginning', () => {
  const lines = newLines()
  lines.append([...range(0, 3), ...range(20, 23)])
  lines.addGap(10, line(2))
  lines.addGap(7, line(2))
  expect(textsOf(lines).slice(2, 5)).toEqual(['text 2', 'gap of 17', 'text 20'])
  lines.append(range(3, 6))
  expect(textsOf(lines).slice(4, 8)).toEqual(['text 4', 'text 5', 'gap of 14', 'text 20'])
  expect(lines.numberOf(7)).toBe(21)
  lines.append([line(23)])
  expect(lines.lastId).toBe(line(23).id)
})

test('a log that keeps its last rows forgets the first ones, and finds the others where they are', () => {
  const lines = newLines()
  lines.append([...range(0, 50), line(50, 'ERROR'), ...range(51, 100)])
  const kept = lines.lineOf(line(60))
  lines.keepLast(55)
  expect(textsOf(lines)).toEqual(range(45, 100).map(({ text }) => text))
  expect([lines.first?.id, lines.errorRows, kept && lines.rowOf(kept)]).toEqual([line(45).id, [5], 15])
  expect([lines.lineOf(line(44)), lines.lineOf({ ...line(60), id: 'other' })]).toEqual([undefined, undefined])
  expect(lines.countSince(line(90).at)).toBe(10)
})
