import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { patternOfRoute } from '@platform/build-output/compile-route'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { isDrill } from '@platform/testkit/test-environment'
import { expect, onTestFinished, test } from 'vitest'
import { frameworkPatterns } from '../../../../test/framework-patterns.ts'

const PATTERNS = 200
const BUSY_MS = 90_000

/** Names that a site gives its routes. */
const names = ['slug', 'id', 'lang', 'user', 'post', 'tag', 'year', 'page', 'shop', 'item']
const named = (name: string): string => `(?<nxtP${name}>[^/]+?)`

/** Patterns for one name of a route, written by hand after those of five frameworks. Most need an analysis, unlike the real ones. */
const like: Record<string, (name: string) => string[]> = {
  'Next.js': (name) => [
    `^(?:/(_next/data/[^/]{1,}))?(?:/((?!api|_next/static|${name}).*))(\\.json)?[\\/#\\?]?$`,
    `^/${name}/(?<nxtP${name}>.+?)(?<rscSuffix>\\.segments/.+\\.segment\\.rsc)(?:/)?$`,
    `^/${name}/${named('a')}/${named('b')}(?:\\.rsc)(?:/)?$`,
    `^(?:/(?<nxtP${name}>.+?))?(?:/)?$`,
    `^(?:/(en|de|fr))?/${name}(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))?(?:/)?$`,
  ],
  Nuxt: (name) => [
    `/${name}/(.*)`,
    `^(?:/(?<locale>[a-z]{2}))?/${name}(?:/(.*))?(?:/_payload\\.json)?$`,
    `^/_nuxt/(.*)$`,
  ],
  SvelteKit: (name) => [
    `^/${name}/([^/]+?)/?$`,
    `^/${name}(?:/([^/]+))?(?:/([^/]+))?(?:/(.*))?/?(?:/__data\\.json)?$`,
    `^/_app/immutable/.+$`,
  ],
  Astro: (name) => [`^\\/${name}\\/([^/]+?)\\/?$`, `^\\/(?:(${name}|[a-z]{2})\\/)?(.*?)\\/?$`, `^/_astro/(.*)$`],
  'React Router': (name) => [
    `^/${name}/([^/]+)(?:\\.data)?$`,
    `^/(?:${name}/)?(?:([^/]+?)/)*_root\\.data$`,
    `^/assets/(.*)$`,
  ],
}
/** Patterns that people write themselves, too slow ones among them. */
const own = (name: string): string[] => [
  `^/(?:${name}+)+$`,
  `^/${name}(.*)(.*)(.*)x$`,
  `^(?!/${name})(?:/\\w+)+$`,
  `^/(${name}?)*/\\1$`,
]

const written = Object.values(frameworkPatterns).flat()
const byHand = [...Object.values(like), own].flatMap((of) => names.flatMap(of))
const patterns = [
  ...written,
  ...Array.from({ length: PATTERNS - written.length }, (_, n) => byHand[(n * 37) % byHand.length] ?? ''),
].map((src) => patternOfRoute({ src }).source)

/** Without `--input-type`, which the thread of the checker would inherit. */
const code = `import(${JSON.stringify(import.meta.resolve('@platform/build-output/check-pattern'))}).then(async ({ openPatternChecker }) => {
  const checker = openPatternChecker({ totalStepsMax: Infinity })
  const found = []
  for (const source of ${JSON.stringify(patterns)}) {
    const verdict = await checker.checkPattern(source, 'i')
    found.push([source, verdict, checker.steps])
  }
  await checker.close()
  console.log(JSON.stringify(found))
})`
const run = promisify(execFile)
const program = [process.execPath, '--eval', code]

/** Verdicts of a new process, with the steps up to each. */
async function judge(...prefix: string[]): Promise<unknown[]> {
  const [file = '', ...args] = [...prefix, ...program]
  const { stdout } = await run(file, args, { maxBuffer: 16_777_216 })
  return JSON.parse(stdout) as unknown[]
}

// Without a drill, check-pattern.test.ts compares the steps of twenty patterns.
test(
  'patterns as frameworks and people write them get the same verdicts, by as many steps, on an idle machine as beside busy programs',
  isDrill ? unless(findTestObstacle(['taskset', 'nice'])) : { skip: true },
  async () => {
    const busy = [1, 2].map(() =>
      spawn('taskset', [
        '-c',
        '0',
        process.execPath,
        '--eval',
        `setTimeout(process.exit, ${BUSY_MS}); setInterval(() => { for (const until = performance.now() + 100; performance.now() < until; ); })`,
      ]),
    )
    onTestFinished(() => {
      for (const program of busy) program.kill('SIGKILL')
    })
    const loaded = await judge('taskset', '-c', '0', 'nice', '-n', '19')
    for (const program of busy) program.kill('SIGKILL')
    expect(loaded).toHaveLength(PATTERNS)
    expect(loaded.at(-1)).not.toEqual([expect.anything(), expect.anything(), 0])
    expect(await judge()).toEqual(loaded)
  },
)
