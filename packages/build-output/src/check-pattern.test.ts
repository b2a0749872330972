import type { Worker } from 'node:worker_threads'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { openPatternChecker } from './check-pattern.ts'
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
])(
  '%s is fast enough',
  async (source) => {
    expect(await checker.checkPattern(source, 'i')).toEqual({ kind: 'safe' })
  },
  20_000,
)

test.each(['^(a+)+$', '^(?:a|a)*b$', '^(.*a){20}$', '^/([^/]*)*x$', '^(?<x>\\w+\\s?)+$', '^.*.*.*x$'])(
  '%s is too slow',
  async (source) => {
    expect(await checker.checkPattern(source, '')).toMatchObject({ kind: 'slow' })
  },
)

test('an analysis that takes too long is ended', async () => {
  const impatient = openPatternChecker(1)
  const threads: Worker[] = []
  const keep = (thread: Worker): number => threads.push(thread)
  process.on('worker', keep)
  onTestFinished(() => void process.off('worker', keep))
  expect(await impatient.checkPattern('^(a+)+$', '')).toEqual({
    kind: 'unknown',
    reason: 'it could not be checked in 0.001 s',
  })
  // A thread that has ended has no number.
  expect(threads.map(({ threadId }) => threadId)).toEqual([-1])
  await impatient.close()
})

test('once all patterns have taken the total, none is judged any more', async () => {
  const hurried = openPatternChecker(10_000, 0)
  expect(await hurried.checkPattern('^(a+)+$', '')).toMatchObject({ kind: 'slow' })
  expect(await hurried.checkPattern('^(b+)+$', '')).toMatchObject({ kind: 'unknown' })
  await hurried.close()
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
