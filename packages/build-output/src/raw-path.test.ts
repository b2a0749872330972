import { describe, expect, test } from 'vitest'
import type { Answer } from './answer.ts'
import type { OutputManifest } from './manifest.ts'
import { pathSpellings } from './path-spellings.ts'
import { compileOutput } from './router.ts'

const empty: Omit<OutputManifest, 'kind'> = { version: 1, routes: [], wildcard: [], site: null, functions: {} }
const files = [
  'index.html',
  'a',
  'b',
  'ab',
  'a/b',
  'a/b.html',
  'a/index.html',
  '[slug].html',
  'é',
  '~a',
  'assets/app.js',
]
const manifests: Record<string, OutputManifest> = {
  'plain files': {
    ...empty,
    kind: 'static',
    site: {
      redirects: [{ from: '/a/b', to: '/moved', status: 301 }],
      headers: [{ path: '/a/*', set: [['x-a', '1']], unset: [] }],
    },
  },
  'a worker': {
    ...empty,
    kind: 'worker',
    worker: { include: ['/a/*', '/ab'], exclude: ['/a/b'] },
    functions: { worker: { function: 'worker' } },
  },
  'a server': {
    ...empty,
    kind: 'server',
    staticFolder: 'a/',
    functions: { 'server.js': { function: 'server.js' } },
  },
  'Build Output with middleware': {
    ...empty,
    kind: 'build-output',
    routes: [
      { src: '/(?:a/b|ab|b)', middlewarePath: 'guard', continue: true },
      { handle: 'filesystem' },
      { src: '/a/(.*)', dest: '/fn?rest=$1' },
    ],
    functions: { guard: { function: 'guard' }, fn: { function: 'fn' } },
  },
}

describe.each(Object.entries(manifests))('%s', (_, manifest) => {
  const router = compileOutput(manifest)
  const hasFile = (path: string): boolean => files.includes(path)
  const ask = (path: string): Answer =>
    router.route({ method: 'GET', path, query: 'q=1', host: 'a.example', headers: {}, protocol: 'https' }, hasFile)
  const told = (answer: Answer) => JSON.stringify({ ...answer, url: undefined })

  test.each(pathSpellings)('the path %j is decided on as %s is', (sent, normal) => {
    const [answer, other] = [ask(sent), ask(normal)]
    expect(told(answer)).toBe(told(other))
    if (answer.kind === 'middleware' && other.kind === 'middleware') {
      const goesOn = { status: 200, headers: [['x-middleware-next', '1'] satisfies [string, string]] }
      expect(told(answer.resume(goesOn))).toBe(told(other.resume(goesOn)))
    }
    // A path never holds a question mark: what follows one is the query.
    if ((manifest.kind === 'server' || manifest.kind === 'worker') && 'url' in answer && !sent.includes('?'))
      expect(answer.url).toBe(`${sent}?q=1`)
  })
})
