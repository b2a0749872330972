import { getTransformedRoutes } from '@vercel/routing-utils'
import { describe, expect, test } from 'vitest'
import { buildOutputOf, shortAnswer } from './short-answer.ts'
import { headerCases, redirectCases, rewriteCases, spelledPages, spellingCases } from './vercel-cases.ts'

type VercelConfig = Parameters<typeof getTransformedRoutes>[0]

/** Builds a project's configuration into the routes that Vercel's own tools make of it. */
function project(config: VercelConfig, files: string[], functions: string[] = []) {
  const { routes, error } = getTransformedRoutes(config)
  if (error !== null) throw new Error(error.message)
  return buildOutputOf(routes ?? [], files, functions)
}

describe.each([
  ['redirects', redirectCases],
  ['rewrites', rewriteCases],
])('%s', (_, { config, files, functions, cases }) => {
  const ask = project(config, files, functions)
  test.each(cases)('$url is $is', ({ url, is, request = {} }) => {
    expect(shortAnswer(ask(url, request))).toBe(is)
  })
})

describe('headers', () => {
  const { config, files, cases } = headerCases
  const ask = project(config, files)
  test.each(cases)('of $url are $headers', ({ url, headers }) => {
    expect(Object.fromEntries(ask(url).headers)).toEqual(headers)
  })
})

describe.each(spellingCases)('cleanUrls $cleanUrls, trailingSlash $trailingSlash', ({ cases, ...config }) => {
  const ask = project(config, spelledPages)
  test.each(cases)('$url is $is', ({ url, is }) => {
    expect(shortAnswer(ask(url))).toBe(is)
  })
})
