import { expect, test } from 'vitest'
import { LogSearch, nextError, nextOf, patternOf, previousOf, rangesOf } from '../src/log/find.ts'
import { type LogLine, LogLines } from '../src/log/lines.ts'
import type { Turns } from '../src/log/slices.ts'

const lineOf = (text: string, n: number, level: LogLine['level'] = 'INFO'): LogLine => ({
  id: `line-${n}`,
  at: new Date(Date.UTC(2026, 0, 1) + n).toISOString(),
  level,
  text,
})

/** A clock that goes on by a millisecond with each look, and rests that end when they are told to. */
function newTurns() {
  let now = 0
  const waiting: (() => void)[] = []
  const turns: Turns = { now: () => now++, rest: () => new Promise((resolve) => waiting.push(resolve)) }
  const endRest = async (): Promise<boolean> => {
    const rest = waiting.shift()
    rest?.()
    await new Promise((resolve) => setImmediate(resolve))
    return rest !== undefined
  }
  return { turns, endRest }
}

/** A log of these texts, whose version is raised at once. */
function logOf(texts: readonly string[]): LogLines {
  const lines = new LogLines((raise) => raise())
  lines.append(texts.map((text, n) => lineOf(text, n)))
  return lines
}

test('a search finds a text in either case, in what is shown rather than in what was sent', () => {
  const lines = logOf(['npm ERR! code', 'fine', '\u001b[31mnpm\u001b[0m \u001b[1merr\u001b[0m!', 'n-p-m err'])
  const search = new LogSearch(lines)
  search.find('NPM err')
  expect(search.rows).toEqual([0, 2])
  search.find('[31m')
  expect(search.rows).toEqual([])
  search.close()
})

test('a search takes signs of patterns as text', () => {
  const search = new LogSearch(logOf(['a.b', 'axb', 'c++ (x|y) [1] {2} $3 ^4 \\5 /6', '(((']))
  for (const [query, rows] of [
    ['a.b', [0]],
    ['c++ (x|y) [1] {2} $3 ^4 \\5 /6', [2]],
    ['(((', [3]],
    ['.*', []],
  ] as const) {
    search.find(query)
    expect(search.rows, query).toEqual(rows)
  }
  search.close()
})

test('a search of a long log goes on in slices, and the page has a turn between two', async () => {
  const { turns, endRest } = newTurns()
  const lines = logOf(Array.from({ length: 10_000 }, (_, n) => (n % 100 === 0 ? 'needle' : 'hay')))
  const search = new LogSearch(lines, turns)
  search.find('needle')
  expect(search.isDone).toBe(false)
  expect(search.done).toBeLessThan(1_000)
  let rests = 0
  while (await endRest()) rests++
  expect(rests).toBeGreaterThan(10)
  expect(search.isDone).toBe(true)
  expect(search.rows).toEqual(Array.from({ length: 100 }, (_, n) => n * 100))
  search.close()
})

test('a search for another text lets the one before go', async () => {
  const { turns, endRest } = newTurns()
  const search = new LogSearch(logOf(Array.from({ length: 2_000 }, (_, n) => `line ${n}`)), turns)
  search.find('line')
  search.find('line 1999')
  while (await endRest());
  expect(search.rows).toEqual([1_999])
  search.find('')
  expect(search.rows).toEqual([])
  expect(search.isDone).toBe(true)
  search.close()
})

test('a search takes in lines as they come, and begins anew when some come late', async () => {
  const lines = logOf(['needle', 'hay'])
  const search = new LogSearch(lines)
  search.find('needle')
  await Promise.resolve()
  lines.append([lineOf('needle', 10), lineOf('hay', 11)])
  expect(search.rows).toEqual([0, 2])
  await Promise.resolve()
  lines.append([lineOf('needle', 5)])
  expect(search.rows).toEqual([0, 2, 3])
  search.close()
  lines.append([lineOf('needle', 20)])
  expect(search.rows).toEqual([0, 2, 3])
})

test('a search that lines come late to while it rests has the right rows in the end', async () => {
  const { turns, endRest } = newTurns()
  const lines = logOf(Array.from({ length: 2_000 }, (_, n) => (n === 1_500 ? 'needle' : 'hay')))
  const search = new LogSearch(lines, turns)
  lines.append([lineOf('hay', 5_000)])
  search.find('needle')
  lines.append([lineOf('needle', 3_000)])
  while (await endRest());
  expect(search.rows).toEqual([1_500, 2_000])
  search.close()
})

test('a gap matches nothing', () => {
  const lines = logOf(['left'])
  lines.addGap(3)
  const search = new LogSearch(lines)
  search.find('left')
  expect(search.rows).toEqual([0])
  search.close()
})

test('matches are ranges of the plain text, as many as are asked for', () => {
  const pattern = patternOf('ab') as RegExp
  expect(rangesOf('ab AB aB', pattern, 20)).toEqual([
    [0, 2],
    [3, 5],
    [6, 8],
  ])
  expect(rangesOf('ab'.repeat(100), pattern, 20)).toHaveLength(20)
  // One character that two of another case stand for must not move what follows.
  expect(rangesOf('İ ab', pattern, 20)).toEqual([[2, 4]])
})

test('the next row is the first behind one, and the first of all behind the last', () => {
  expect([-1, 2, 3, 9].map((row) => nextOf([2, 5, 9], row))).toEqual([2, 5, 5, 2])
  expect([10, 9, 5, 2, 0].map((row) => previousOf([2, 5, 9], row))).toEqual([9, 5, 2, 9, 9])
  expect([nextOf([], 3), previousOf([], 3)]).toEqual([undefined, undefined])
})

test('the next error is the first line of level ERROR behind a row, and a line that merely says so is none', () => {
  const lines = logOf(['ERROR'])
  expect(nextError(lines, 0)).toBeUndefined()
  lines.append([lineOf('a', 1, 'ERROR'), lineOf('b', 2, 'WARN'), lineOf('c', 3, 'ERROR')])
  expect([0, 1, 2, 3].map((row) => nextError(lines, row))).toEqual([1, 3, 3, 1])
})
