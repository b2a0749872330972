import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'

const root = join(import.meta.dirname, '../../..')

const elapsed = 'project(elapsed-in-expect)'
const impatient = 'project(patience)'
const unheard = 'project(stream-listener)'

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
  'a poll with more patience': ['await expect.poll(() => start, { timeout: 60_000, interval: 5 }).toBe(1)', []],
  'a waitFor with the default of vitest': ['await vi.waitFor(() => expect(start).toBe(1))', [impatient]],
  'a waitFor with an interval alone': ['await vi.waitFor(() => start, { interval: 20 })', [impatient]],
  'an impatient waitFor': ['await vi.waitFor(() => start, 4_000)', [impatient]],
  'an impatient waitUntil': ['await vi.waitUntil(() => start, { timeout: 59_999 })', [impatient]],
  'a patient waitUntil': ['await vi.waitUntil(() => start, { timeout: 60_000 })', []],
}

/** By what a program of infra does: the same. */
const programs: typeof snippets = {
  'a stream of a file': ["const log = createWriteStream('log'); log.write('x')", [unheard]],
  'a stream of its own': ["const sink = new stream.Writable(); sink.write('x')", [unheard]],
  'a stream that it gives away': ['createReadStream(`log`).pipe(process.stdout)', [unheard]],
  'a stream with a listener of something else': [
    "const log = createWriteStream('log'); log.on('close', end)",
    [unheard],
  ],
  'a connection': ["const c = connect(80); c.write('x')", [unheard]],
  'a program that it tells something': ["child.stdin.end('x')", [unheard]],
  'a program that it tells something, and a listener': ["child.stdin.on('error', end); child.stdin.end('x')", []],
  'a stream with a listener': ["const log = createWriteStream('log'); log.on('error', end)", []],
  'a stream with a listener at once': ["const s = new Socket().on('close', end).once('error', end)", []],
  'a stream in a pipeline': ['await pipeline(createReadStream(`log`), sink)', []],
  'a stream in a pipeline, by its name': ['const log = createReadStream(`log`); await pipeline(log, sink)', []],
}

/** The rules of this project's own plugin that refused a snippet, by the name of its file. */
const refused = new Map<string, string[]>()

const fileOf = (kind: string, n: number): string => (kind === 'tests' ? `${n}.test.ts` : `infra/${n}.ts`)

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lint-'))
  try {
    await mkdir(join(folder, 'infra'))
    for (const [kind, of] of Object.entries({ tests: snippets, programs }))
      for (const [n, [code]] of Object.values(of).entries())
        await writeFile(join(folder, fileOf(kind, n)), `export async function run(start: number) { ${code} }\n`)
    const { diagnostics } = JSON.parse(await lint(folder)) as { diagnostics: { filename: string; code: string }[] }
    for (const { filename, code } of diagnostics) {
      const name = filename.slice(filename.indexOf(basename(folder)) + basename(folder).length + 1)
      if (code.startsWith('project(')) refused.set(name, [...(refused.get(name) ?? []), code])
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
  Object.entries({ tests: snippets, programs }).flatMap(([kind, of]) =>
    Object.entries(of).map(([what, [, rules]], n) => ({
      verdict: rules[0] ? 'refuses' : 'accepts',
      where: kind === 'tests' ? 'a test' : 'a program of infra',
      what,
      rules,
      file: fileOf(kind, n),
    })),
  ),
)('lint $verdict $where with $what', ({ rules, file }) => {
  expect(refused.get(file) ?? []).toEqual(rules)
})
