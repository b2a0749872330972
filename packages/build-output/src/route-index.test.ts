import { array, assert, constantFrom, property } from 'fast-check'
import { expect, test } from 'vitest'
import { compileRoute } from './compile-route.ts'
import { indexRoutes } from './route-index.ts'

const sources = [
  '^/me$',
  '^/ME/$',
  '^/a\\.b$',
  '^/blog(?:/([^/]+?))$',
  '^/blog-a(?:/(.*))?$',
  '^(?:/(.*))$',
  '^/?$',
  '^/a|/b$',
  '^/section-[0-9]$',
  '^/café$',
]
const paths = [
  '/',
  '/me',
  '/Me/',
  '/a.b',
  '/aXb',
  '/blog/x',
  '/blogs',
  '/blog-a',
  '/blog-a/b',
  '/b',
  '/section-1',
  '/caf%C3%A9',
]

test('an index leaves no route out that matches a path, and keeps their order', () => {
  assert(
    property(array(constantFrom(...sources), { minLength: 16, maxLength: 60 }), (written) => {
      const list = indexRoutes(written.map((src) => compileRoute({ src })))
      for (const path of paths) {
        const places = list.candidatesOf(path.toLowerCase())
        expect(places).toEqual([...new Set(places)].toSorted((one, other) => one - other))
        for (const [place, { pattern, seesDecoded }] of list.routes.entries())
          if (pattern.test(path) || (seesDecoded && pattern.test(decodeURIComponent(path))))
            expect(places).toContain(place)
      }
    }),
    { numRuns: 200 },
  )
})

test('a path is compared with the few of a thousand routes that begin like it', () => {
  const routes = Array.from({ length: 1_000 }, (_, n) =>
    compileRoute({ src: n % 2 === 0 ? `^/old-page-${n}$` : `^/section-${n}(?:/([^/]+?))$` }),
  )
  const { candidatesOf } = indexRoutes(routes)
  expect(candidatesOf('/index.html')).toEqual([])
  expect(candidatesOf('/old-page-500')).toEqual([500])
  expect(candidatesOf('/section-501/x')).toEqual([5, 501])
})
