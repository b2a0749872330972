import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { essence, startService } from './service.ts'

test('the log of a service turns while it runs, with every line on stdout and stderr, and its last words say why it ended', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-service-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const script = join(folder, 'script.mjs')
  writeFileSync(
    script,
    `for (let n = 0; n < 120_000; n++) process.stdout.write(n + ' '.padEnd(100, '.') + '\\n')
    process.exitCode = 3
    console.error('RangeError: too many lines')`,
  )
  const logFile = join(folder, 'service.log')
  const { ended } = startService({ name: 'service', script, arguments: [], cwd: folder, env: {}, logFile })
  expect(await ended).toBe(`The service ended (exit code 3): too many lines. Its log is ${logFile}.`)
  const [old = [], current = []] = [`${logFile}.old`, logFile].map((file) => readFileSync(file, 'utf8').split('\n'))
  const numbers = [...old, ...current].filter((line) => line.endsWith('.')).map((line) => Number.parseInt(line, 10))
  expect(numbers).toEqual(Array.from({ length: 120_000 }, (_, n) => n))
  expect(old.length).toBeGreaterThan(90_000)
})

test('a line on stderr stands beside the lines on stdout, however those are cut into pieces', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-service-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const script = join(folder, 'script.mjs')
  writeFileSync(
    script,
    `import { readFileSync, writeSync } from 'node:fs'
    const linesOfStderr = () => readFileSync(process.argv[2], 'utf8').split('a line of stderr').length - 1
    const text = ('o'.repeat(999) + '\\n').repeat(80)
    for (const [n, [from, to]] of [[0, 500], [500, 66_536], [66_536]].entries()) {
      for (let at = from; at < (to ?? text.length);) at += writeSync(1, text.slice(at, to))
      if (to) console.error('a line of stderr')
      while (to && linesOfStderr() <= n) await new Promise(setImmediate)
    }`,
  )
  const logFile = join(folder, 'service.log')
  await startService({ name: 'service', script, arguments: [logFile], cwd: folder, env: {}, logFile }).ended
  const lines = readFileSync(logFile, 'utf8').trimEnd().split('\n')
  expect(lines.filter((line) => line === 'a line of stderr')).toHaveLength(2)
  expect(lines.filter((line) => line === 'o'.repeat(999))).toHaveLength(80)
  expect(lines).toHaveLength(82)
})

test.each([
  [
    'the last error of a JSON log',
    ['{"level":30,"msg":"started"}', '{"level":60,"msg":"MASTER_KEYS is missing"}', '{"level":30,"msg":"bye"}'],
    'MASTER_KEYS is missing.',
  ],
  ['its cause, where logged', ['{"level":50,"err":{"message":"no route"},"msg":"failed"}'], 'no route.'],
  [
    'a thrown error among its stack',
    [
      'file:///x.ts:1',
      'throw new Error()',
      '^',
      'TypeError [ERR_X]: wrong thing',
      '    at x (file:///x.ts:1:2)',
      '',
      'Node.js v24.0.0',
    ],
    'wrong thing.',
  ],
  ['a plain last line', ['one', 'PORT is missing: expected a port.'], 'PORT is missing: expected a port.'],
  ['nothing at all', [], 'it wrote no reason.'],
])('the essence of an output is %s', (_, lines, expected) => {
  expect(essence(lines)).toBe(expected)
})
