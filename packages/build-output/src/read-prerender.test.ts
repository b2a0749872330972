import { describe, expect, test } from 'vitest'
import type { PrerenderRules } from './manifest.ts'
import { UnusableOutput } from './output.ts'
import { readOutput } from './read-output.ts'
import { buildOutputOf, shortAnswer } from './short-answer.ts'
import { treeOf } from './tree-of.ts'

const FUNCTIONS = '.vercel/output/functions'
const base = {
  '.vercel/output/config.json': '{"version":3}',
  [`${FUNCTIONS}/page.func/.vc-config.json`]: '{"runtime":"nodejs24.x","handler":"index.js","launcherType":"Nodejs"}',
  [`${FUNCTIONS}/page.func/index.js`]: '',
}
const read = (config: object, more: Record<string, string> = {}) =>
  readOutput(treeOf({ ...base, [`${FUNCTIONS}/page.prerender-config.json`]: JSON.stringify(config), ...more }), '')

describe('a Prerender Function', () => {
  test.each<[string, object, Partial<PrerenderRules>]>([
    ['no time', {}, { expiration: false }],
    ['a time', { expiration: 10, staleExpiration: 20 }, { expiration: 10, staleExpiration: 20 }],
    ['for ever', { expiration: false, staleExpiration: false }, { expiration: false }],
    [
      'nulls for what is not said',
      { fallback: null, group: null, bypassToken: null, allowQuery: null },
      { expiration: false },
    ],
    [
      'what pages differ by',
      { allowQuery: [], allowHeader: ['Accept-Language'], passQuery: true },
      { allowQuery: [], allowHeader: ['accept-language'], passQuery: true },
    ],
    ['a group', { group: 7 }, { group: 7 }],
    ['errors', { exposeErrBody: true }, { exposesErrorBody: true }],
    [
      'who is left out',
      { experimentalBypassFor: [{ type: 'header', key: 'next-action' }] },
      { bypassFor: [{ type: 'header', key: 'next-action' }] },
    ],
    [
      'a chain',
      { chain: { outputPath: 'page', headers: { 'next-resume': '1' } } },
      { chain: { path: 'page', headers: { 'next-resume': '1' } } },
    ],
    ['members that nobody knows', { hasPostponed: true, type: 'Prerender', sourcePath: '/x' }, {}],
  ])('with %s', async (_, config, rules) => {
    const { manifest, warnings } = await read(config)
    expect(manifest.prerenders).toEqual({ page: { expiration: false, initialHeaders: [], ...rules } })
    expect(warnings).toEqual([])
  })

  test('has a fallback with its headers, of which no cookie is kept', async () => {
    const { manifest, fallbacks } = await read(
      {
        fallback: { type: 'FileFsRef', fsPath: 'page.prerender-fallback.html', contentType: 'text/html' },
        initialHeaders: { 'X-Own': 'a', link: ['b', 'c'], 'Set-Cookie': 'd=e' },
        initialStatus: 404,
      },
      { [`${FUNCTIONS}/page.prerender-fallback.html`]: '' },
    )
    const path = 'functions/page.prerender-fallback.html'
    expect(fallbacks).toEqual([{ path, source: `.vercel/output/${path}` }])
    expect(manifest.prerenders?.['page']).toEqual({
      expiration: false,
      fallback: path,
      initialHeaders: [
        ['x-own', 'a'],
        ['link', 'b'],
        ['link', 'c'],
        ['content-type', 'text/html'],
      ],
      initialStatus: 404,
    })
  })

  test('keeps its token as a hash', async () => {
    const { manifest } = await read({ bypassToken: 'secret' })
    expect(manifest.prerenders?.['page']?.bypassTokenHash).toBe('K7gNU3sdo-OL0wNhqoVWhr3g6s1xYv72ol_pe_Unols')
    expect(JSON.stringify(manifest)).not.toContain('secret')
  })

  test('without a Function is left out, and the log says so', async () => {
    const { manifest, warnings } = await read({}, { [`${FUNCTIONS}/gone.prerender-config.json`]: '{}' })
    expect(Object.keys(manifest.prerenders ?? {})).toEqual(['page'])
    expect(warnings).toEqual([`${FUNCTIONS}/gone.prerender-config.json is ignored: there is no Function gone.func.`])
  })

  test.each([
    ['a time that is none', { expiration: -1 }, /expiration/],
    ['a header that breaks lines', { initialHeaders: { a: 'b\r\nc: d' } }, /initialHeaders has "a"/],
    [
      'a header of framing',
      { initialHeaders: { 'transfer-encoding': 'chunked' } },
      /initialHeaders has "transfer-encoding"/,
    ],
    ['a status that is none', { initialStatus: 99 }, /initialStatus/],
    ['a fallback outside', { fallback: '../../../x' }, /fallback "..\/..\/..\/x" leads outside/],
    ['a chain that leads nowhere', { chain: { outputPath: 'gone' } }, /chain names "gone", which is no Function/],
    [
      'a pattern that is none',
      { experimentalBypassFor: [{ type: 'header', key: 'a', value: '(' }] },
      /experimentalBypassFor, "\(", is no pattern/,
    ],
    [
      'a pattern that is slow',
      { experimentalBypassFor: [{ type: 'header', key: 'a', value: '(a*)*b' }] },
      /experimentalBypassFor, .* takes too long/,
    ],
  ])('is refused for %s', async (_, config, message) => {
    const failure = await read(config).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(UnusableOutput)
    expect(String(failure)).toMatch(message)
  })
})

describe('the route of a page that is kept', () => {
  const rules: PrerenderRules = { expiration: false, initialHeaders: [] }
  const ask = buildOutputOf(
    [
      { src: '/posts/(?<slug>[^/]+)', dest: '/posts/[slug]?slug=$slug' },
      { src: '/named/(?<by>[^/]+)', dest: '/named?by=$by' },
      { handle: 'hit' },
      { src: '/((?!index$).*?)(?:/)?', headers: { 'x-matched-path': '/$1' }, continue: true },
      { handle: 'error' },
      { src: '/.*', dest: '/500.html', status: 500 },
      { src: '/.*', dest: '/404.html', status: 404 },
    ],
    ['404.html', '500.html'],
    ['index', 'posts/[slug]', 'own', 'named'],
    {
      prerenders: {
        index: { ...rules, allowQuery: [] },
        'posts/[slug]': { ...rules, allowQuery: ['slug'] },
        named: rules,
        own: { ...rules, bypassFor: [{ type: 'cookie', key: 'mine' }] },
      },
    },
  )
  test.each([
    ['/?a=1', 'kept index /? []'],
    ['/posts/x?a=1', 'kept posts/[slug] /posts/[slug]?slug=x [slug=x]'],
    // A visitor's own parameter with that name is ignored.
    ['/posts/x?slug=y', 'kept posts/[slug] /posts/[slug]?slug=x [slug=x]'],
    ['/own?b=2&a=1&a=0', 'kept own /own?a=1&a=0&b=2 []'],
    ['/own?a=%31+%20&=x', 'kept own /own?=x&a=1++ []'],
    ['/named/y?slug=z', 'kept named /named?by=y&slug=z [by=y]'],
  ])('%s', (url, answer) => {
    expect(shortAnswer(ask(url))).toBe(answer)
  })

  test('without a name of its own in `hit` is called as the visitor asked', () => {
    const plain = buildOutputOf([{ src: '/kept', dest: '/kept-isr?url=$url' }], [], ['kept-isr'], {
      prerenders: { 'kept-isr': rules },
    })
    expect(shortAnswer(plain('/kept?a=1'))).toBe('kept kept-isr /kept?a=1&url=%24url []')
  })

  test('knows who is left out, and what shows a failure', () => {
    const answer = ask('/own', { headers: { cookie: 'mine=1' } })
    expect(shortAnswer(answer)).toBe('kept own /own? [] bypassed')
    if (answer.kind !== 'prerender') throw new Error(answer.kind)
    expect(shortAnswer(answer.fail(500))).toBe('500 500.html')
    expect(shortAnswer(answer.fail(404))).toBe('404 404.html')
  })
})
