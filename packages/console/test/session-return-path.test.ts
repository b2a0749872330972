import { beforeAll, expect, test, vi } from 'vitest'
import { isCallback, returnPath } from '../src/session/return-path.ts'

beforeAll(() => {
  vi.stubGlobal('location', new URL('https://console.example.com/callback?code=1'))
  return () => vi.unstubAllGlobals()
})

test.each([
  '//evil.example',
  '///evil.example',
  '/\\evil.example',
  '\\/evil.example',
  '/\t/evil.example/acme',
  '/.//evil.example',
  '/a/..//evil.example',
  'https://evil.example',
  'https://console.example.com/acme',
  'javascript:alert(1)',
  'acme',
  ' /acme',
  '',
  '/callback?code=1',
  '/callback?error=access_denied',
  '/./callback?code=1',
  undefined,
  null,
  7,
  ['/acme'],
])('a sign-in does not go on at %j, but at the start', (wanted) => {
  expect(returnPath(wanted)).toBe('/')
})

test.each([
  '/',
  '/acme',
  '/acme/shop?range=7d&x=%2F%2F#requests',
  '/callback',
  '/callback/shop?code=1',
  '/acme?code=1',
])('a sign-in goes on at %s of the console', (wanted) => {
  expect(returnPath(wanted)).toBe(wanted)
})

test('an organization that is named callback has a page of its own', () => {
  expect(isCallback(new URL('https://console.example.com/callback?new'))).toBe(false)
})
