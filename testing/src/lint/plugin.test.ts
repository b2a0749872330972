import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'

const root = join(import.meta.dirname, '../../..')

const elapsed = 'tests(elapsed-in-expect)'
const impatient = 'tests(patience)'

/** By what a test does: its code, and the rules that refuse it. */
const snippets: Record<string, [code: string, rules: string[]]> = {
  'an elapsed time of performance.now()': ['expect(performance.now() - start).toBeLessThan(1_000)', [elapsed]],
  'an elapsed time of Date.now()': ['expect(Date.now() - start).toBeLessThan(1_000)', [elapsed]],
  'an elapsed time within a call': ['expect(Math.abs(start - Date.now())).toBeLessThan(1_000)', [elapsed]],
  'an elapsed time within an array': ['expect([1, performance.now() - start]).toEqual([1, 0])', [elapsed]],
  'an elapsed time that is polled': ['await expect.poll(() => performance.now() - start).toBe(1)', [elapsed]],
  'a variable with an elapsed time': ['const ms = Date.now() - start; expect(ms).toBeLessThan(1_000)', [elapsed]],
  'an elapsed time that is only told': ['const ms = performance.now() - start; console.log(ms)', []],
  'a moment in the past': ['expect(isOver(new Date(Date.now() - 60_000))).toBe(true)', []],
  'a clock outside expect': ['const end = performance.now(); expect(start).toBe(0); console.log(end)', []],
  'an impatient poll': ['await expect.poll(() => start, { timeout: 5_000 }).toBe(1)', [impatient]],
  'a poll with the project’s patience': ['await expect.poll(() => start).toBe(1)', []],
  'a poll with more patience': ['await expect.poll(() => start, { timeout: 30_000, interval: 5 }).toBe(1)', []],
  'a waitFor with the default of vitest': ['await vi.waitFor(() => expect(start).toBe(1))', [impatient]],
  'a waitFor with an interval alone': ['await vi.waitFor(() => start, { interval: 20 })', [impatient]],
  'an impatient waitFor': ['await vi.waitFor(() => start, 4_000)', [impatient]],
  'an impatient waitUntil': ['await vi.waitUntil(() => start, { timeout: 29_999 })', [impatient]],
  'a patient waitUntil': ['await vi.waitUntil(() => start, { timeout: 30_000 })', []],
}

/** The rules of this project's own plugin that refused a snippet, by its number. */
const refused = new Map<number, string[]>()

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lint-'))
  try {
    for (const [n, [code]] of Object.values(snippets).entries())
      await writeFile(join(folder, `${n}.test.ts`), `export async function run(start: number) { ${code} }\n`)
    const { diagnostics } = JSON.parse(await lint(folder)) as { diagnostics: { filename: string; code: string }[] }
    for (const { filename, code } of diagnostics) {
      const n = Number(/(\d+)\.test\.ts$/.exec(filename)?.[1])
      if (code.startsWith('tests(')) refused.set(n, [...(refused.get(n) ?? []), code])
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

/** Lints a folder by the project's own configuration; exit code 1 says that something was refused. */
const lint = (folder: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const argv = ['--config', join(root, '.oxlintrc.json'), '--format', 'json', folder]
    execFile(join(root, 'node_modules/.bin/oxlint'), argv, (error, stdout) => {
      if (error !== null && error.code !== 1) reject(error)
      else resolve(stdout)
    })
  })

test.each(
  Object.entries(snippets).map(([what, [, rules]], n) => ({
    verdict: rules[0] ? 'refuses' : 'accepts',
    what,
    rules,
    n,
  })),
)('lint $verdict a test with $what', ({ rules, n }) => {
  expect(refused.get(n) ?? []).toEqual(rules)
})
