import type { Worker } from 'node:worker_threads'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { openPatternChecker, type PatternChecker } from './check-pattern.ts'
import { type CheckedPattern, type KeptVerdicts, verdictKey } from './pattern-verdict.ts'
import { isSimplePattern } from './simple-pattern.ts'

const checker = openPatternChecker()
afterAll(() => checker.close())

/** Patterns of routes that Next.js 16, Nitro, SvelteKit and Astro write, and Vercel's own tools. */
test.each([
  '^/?$',
  '^/(.*)$',
  '^/user/(?<a>[^/]+?)/(?<b>[^/]+?)/(?<c>[^/]+?)(?:/)?$',
  '^(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))/$',
  '^/((?!index$).*?)(?:/)?$',
  '^(?:/(_next/data/[^/]{1,}))?(?:/((?!api|_next/static|favicon.ico).*))(\\.json)?[\\/#\\?]?$',
  '^/blog/(?<nxtPslug>[^/]+?)(?:\\.rsc)(?:/)?$',
  '^/(?<nxtPall>.+?)(?:/)?$',
  '^(?:/(?<nxtPall>.+?))?(?:/)?$',
  '^/_next/static/(?:[^/]+/pages|pages|chunks|runtime|css|image|media|abc)/.+$',
  '^/(?<path>.+)(?<rscSuffix>\\.segments/.+\\.segment\\.rsc)(?:/)?$',
  '^/((?:[^/]+/)*[^/\\.]+)/$',
  '^/_app/immutable/.+$',
  '^/\\/(?<id>\\d+)\\/?$',
])('%s is fast enough', async (source) => {
  expect(await checker.checkPattern(source, 'i')).toEqual({ kind: 'safe' })
})

test.each(['^(a+)+$', '^(?:a|a)*b$', '^(.*a){20}$', '^/([^/]*)*x$', '^(?<x>\\w+\\s?)+$', '^.*.*.*x$'])(
  '%s is too slow',
  async (source) => {
    expect(await checker.checkPattern(source, '')).toMatchObject({ kind: 'slow' })
  },
)

/** Threads that are started while a test runs. */
function watchThreads(): Worker[] {
  const threads: Worker[] = []
  const keep = (thread: Worker): number => threads.push(thread)
  process.on('worker', keep)
  onTestFinished(() => void process.off('worker', keep))
  return threads
}

/** Verdicts in memory. */
function openKept(): KeptVerdicts {
  const verdicts = new Map<string, CheckedPattern>()
  return {
    find: (key) => Promise.resolve(verdicts.get(key.toString('hex'))),
    keep: (key, checked) => Promise.resolve(void verdicts.set(key.toString('hex'), checked)),
  }
}

/** Opens a checker that the test closes. */
function openAnew(options: Parameters<typeof openPatternChecker>[0] = {}): PatternChecker {
  const opened = openPatternChecker(options)
  onTestFinished(() => opened.close())
  return opened
}

/** Twelve that the automaton decides, and eight with look-around or back references, which the fuzzer does. */
const analyzed = [
  '^(a+)+$',
  '^(?:a|a)*b$',
  '^(.*a){4}$',
  '^/([^/]*)*x$',
  '^(?<x>\\w+\\s?)+$',
  '^.*.*.*x$',
  '^(?:a?b?){2}.*$',
  '^(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))x$',
  '^/((?:[^/]+/)*[^/\\.]+)/$',
  '^(?:ab|cd)*$',
  '^.*.*(?:x.*)?y$',
  '^(?:\\w+-)*\\w+$',
  '^(?<=a)(?:b|c)+$',
  '^(?=.*a)(?:b+)+$',
  '^(?!a)(?:b){3}$',
  '^(?:ab){2}\\b(?=c)$',
  '^(a)(?:b)+\\1$',
  '^(?!a)(?:bc)+$',
  '^(?=a)(?:ab)*$',
  '^(a|b)\\1(?:cd)+$',
]

async function checkAll(patterns: readonly string[], opened: PatternChecker): Promise<Map<string, unknown>> {
  const results = new Map<string, unknown>()
  for (const source of patterns) {
    const before = opened.steps
    const verdict = await opened.checkPattern(source, 'i')
    results.set(source, { verdict, steps: opened.steps - before })
  }
  return results
}

test('each of 20 patterns takes the same steps and gets the same verdict again, whichever were analyzed before it', async () => {
  const first = await checkAll(analyzed, openAnew())
  expect(first.size).toBe(20)
  for (const result of first.values()) expect(result).not.toMatchObject({ steps: 0 })
  expect(await checkAll(analyzed.toReversed(), openAnew())).toEqual(first)
})

test('an analysis ends after a number of steps, not after a time', async () => {
  const source = '^(?:a|a)*b$'
  const whole = openAnew()
  expect(await whole.checkPattern(source, '')).toMatchObject({ kind: 'slow' })
  expect(await openAnew({ stepsMax: whole.steps / 2 }).checkPattern(source, '')).toEqual({
    kind: 'unknown',
    reason: 'its check takes too many steps',
  })
})

test('a pattern that nests too deeply for the analysis is told so', async () => {
  const source = `^${'('.repeat(1_000)}a${')?'.repeat(1_000)}.*b$`
  expect(await openAnew().checkPattern(source, '')).toEqual({
    kind: 'unknown',
    reason: 'it nests too deeply for its check',
  })
})

test('once the patterns of a manifest have taken the total of steps, none is judged any more, known or not', async () => {
  const kept = openKept()
  for (const threads of [1, 0]) {
    const started = watchThreads()
    const opened = openAnew({ totalStepsMax: 0, kept })
    expect(await opened.checkPattern('^(a+)+$', '')).toMatchObject({ kind: 'slow' })
    expect(await opened.checkPattern('^(b+)+$', '')).toMatchObject({ kind: 'unknown' })
    expect(started).toHaveLength(threads)
  }
})

test('a checker analyzes no pattern whose verdict an earlier one kept, and counts its steps as if it had', async () => {
  const threads = watchThreads()
  const kept = openKept()
  const first = await checkAll(['^(c+)+$', '^(?:c|d)*$'], openAnew({ kept }))
  expect(await checkAll(['^(?:c|d)*$', '^(c+)+$'], openAnew({ kept }))).toEqual(first)
  expect(threads).toHaveLength(1)
})

test.each([{ source: '^(d+)+$' }, { flags: 'i' }, { stepsMax: 2 }, { analyser: 'recheck 0.0.1' }])(
  'a verdict has another key with %o',
  (other) => {
    const analyzed = { source: '^(c+)+$', flags: '', stepsMax: 1 }
    expect(verdictKey({ ...analyzed, ...other })).not.toEqual(verdictKey(analyzed))
    expect(verdictKey({ ...analyzed })).toEqual(verdictKey(analyzed))
  },
)

test('a check that is ended from outside has no verdict, so that its deployment can be tried again', async () => {
  const threads = watchThreads()
  const opened = openAnew()
  const verdict = opened.checkPattern('^(?!q)(?:a|b)*(?:a|b)*(?:a|b)*x$', '')
  await expect.poll(() => threads.length).toBe(1)
  await Promise.all([opened.close(), expect(verdict).rejects.toThrow('was ended before its verdict')])
  // A thread that has ended has no number.
  expect(threads.map(({ threadId }) => threadId)).toEqual([-1])
})

test.each([
  ['^/a$', true],
  ['^/(.*)$', true],
  ['^/([^/]+?)/(?<x>.*)(?:/)?$', true],
  ['^/((?!index$).*?)(?:/)?$', true],
  ['^/[(*+]+\\(+$', true],
  ['^/a{1,3}$', true],
  ['^/([^/]+?)/([^\\/]{1,}?)/([^/]+)(?<rsc>\\.rsc|\\.segments/.+\\.rsc)(?:/)?$', true],
  ['^/([^/]+)/.*.*$', true],
  ['^/.*.*([^/]+)/$', false],
  ['^/([^/]+)?/.*.*$', false],
  ['^/([^/]+|x)/.*.*$', false],
  ['^/([^a]+)/.*.*$', false],
  ['^/.*.*.*$', false],
  ['^(?:a+)+$', false],
  ['^(?:a|a)*$', false],
  ['^(?:ab){2,}$', false],
  ['^(a)\\1$', false],
  ['^a?a?a?a?a?$', false],
  ['^/(?:a|b|c|d|e|f|g|h)(?:/|x)$', true],
  ['^/(?:a|b|c)(?:a|b|c)(?:a|b|c)$', false],
  [`^${Array.from({ length: 17 }, (_, n) => n).join('$|^')}$`, false],
])('%s needs no analysis: %s', (source, expected) => {
  expect(isSimplePattern(source)).toBe(expected)
})
