import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openTurningLog } from './turning-log.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'platform-log-test-'))
  file = join(folder, 'api.log')
})
afterEach(() => rmSync(folder, { recursive: true }))

const linesOf = (path: string): string[] => readFileSync(path, 'utf8').split('\n').slice(0, -1)

test('a log turns while it is written, loses no line and cuts none, whatever pieces they come in', () => {
  const bytesMax = 8_000
  const log = openTurningLog(file, bytesMax)
  const lines = Array.from({ length: 1_000 }, (_, n) => `line ${n}`)
  const text = Buffer.from(`${lines.join('\n')}\n`)
  for (let from = 0, size = 1; from < text.length; from += size, size = (size * 7) % 97 || 1)
    log.write(text.subarray(from, from + size))
  expect([...linesOf(`${file}.old`), ...linesOf(file)]).toEqual(lines)
  expect(statSync(`${file}.old`).size).toBeGreaterThan(bytesMax - 100)
  expect(statSync(`${file}.old`).size).toBeLessThan(bytesMax + 100)
})

test('at the second turn the older log goes', () => {
  const log = openTurningLog(file, 100)
  for (let n = 0; n < 25; n++) log.write(`line ${n} `.padEnd(19, '.') + '\n')
  const [old, current] = [linesOf(`${file}.old`), linesOf(file)]
  expect(old).toHaveLength(5)
  expect([...old, ...current].map((line) => line.split(' ')[1])).toEqual(
    Array.from({ length: old.length + current.length }, (_, n) => String(25 - old.length - current.length + n)),
  )
})

test('a log counts what an earlier start wrote, and only its owner may read it', () => {
  writeFileSync(file, `${'x'.repeat(99)}\n`, { mode: 0o600 })
  const log = openTurningLog(file, 100)
  log.write('next\n')
  expect(linesOf(file)).toEqual(['next'])
  expect(statSync(file).mode & 0o777).toBe(0o600)
})

test('it goes on where somebody removed the file', () => {
  const log = openTurningLog(file, 10)
  log.write('0123456789\n')
  rmSync(file)
  log.write('next\n')
  expect(linesOf(file)).toEqual(['next'])
})

test('a line without an end does not make it grow for ever, nor does a folder in the place of the older log', () => {
  mkdirSync(`${file}.old`)
  const log = openTurningLog(file, 100)
  for (let n = 0; n < 100; n++) log.write('x'.repeat(10))
  log.write('\n')
  log.write('next\n')
  expect(statSync(file).size).toBeLessThanOrEqual(310)
  expect(linesOf(file).at(-1)).toBe('next')
})

test('a log that cannot be opened says so at the start', () => {
  expect(() => openTurningLog(join(folder, 'none', 'api.log'))).toThrow('ENOENT')
})
