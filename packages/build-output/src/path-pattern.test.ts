import { sourceToRegex } from '@vercel/routing-utils'
import { checkSync } from 'recheck'
import { expect, test } from 'vitest'
import { isPathPattern } from './path-pattern.ts'

/** The pattern of a `source`, as the routes of a deployment have it. */
const patternOf = (source: string): string => new RegExp(sourceToRegex(source).src).source.replaceAll('\\/', '/')

test.each([
  '/a-b/c.html',
  '/all/:path*',
  '/:path*/edit',
  '/old/:slug/:path*',
  '/:y(\\d{4})/:m(\\d{2})/:day/:slug',
  '/:a?/:b?/:c?',
  '/docs{/:version}?/:path*',
  '/:a([a-z0-9-]+)/(.*)/end',
])('a rule for %s is at most quadratic, as the analysis says as well', (source) => {
  const pattern = patternOf(source)
  expect(isPathPattern(pattern)).toBe(true)
  const verdict = checkSync(pattern, 'i')
  const degree =
    verdict.status === 'vulnerable' && verdict.complexity.type === 'polynomial' && verdict.complexity.degree
  expect(verdict.status === 'safe' || degree === 2).toBe(true)
})

test.each([
  '/:a*/:b*',
  '/:a*/x(.*)',
  '/:path*.html',
  '/:a-:b',
  '/:a?/:b?/:c?/:d?/:e?',
  '/:a((?:x+)+)/b',
  '/:lang(en|de)/:path*',
])('a rule for %s is left to the analysis', (source) => {
  expect(isPathPattern(patternOf(source))).toBe(false)
})

test.each(['/a', '^/a', '^/a+$', '^(?:/([^/]+?))*$', '^/a|b$', '^/(?=a)$', '^[/]$'])(
  '%s is no pattern of a path',
  (source) => {
    expect(isPathPattern(source)).toBe(false)
  },
)
