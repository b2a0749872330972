import { createLogger } from '@platform/runtime/logger'
import { expect, onTestFinished, test } from 'vitest'
import { createProfileLearner } from './profiles.ts'

test('a user is asked about again after ten minutes, or with a token that shows more (D73)', () => {
  let position = Date.parse('2026-11-22T09:00:00Z')
  let count = 0
  const userinfo = Promise.withResolvers<URL>()
  onTestFinished(() => userinfo.reject(new Error('The test is over')))
  const learn = createProfileLearner({
    db: undefined as never, // never used: userinfo does not resolve before the end
    now: () => new Date(position),
    logger: createLogger('test', 'silent'),
    userinfoEndpoint: () => {
      count++
      return userinfo.promise
    },
  })
  const askWith = (...scopes: string[]): number => {
    learn('ana', 'token', new Set(scopes), undefined)
    return count
  }
  expect(askWith('email')).toBe(0)
  expect(askWith('openid', 'email')).toBe(1)
  position += 599_000
  expect(askWith('openid', 'email')).toBe(1)
  expect(askWith('openid', 'email', 'profile')).toBe(2)
  position += 1_001
  expect(askWith('openid', 'email')).toBe(3)
})
