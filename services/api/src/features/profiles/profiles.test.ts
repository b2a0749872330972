import { createLogger } from '@platform/runtime/logger'
import { expect, onTestFinished, test } from 'vitest'
import { createProfileLearner } from './profiles.ts'

test('a user is asked about again after ten minutes, or with a token that shows more (D73)', () => {
  let at = Date.parse('2026-11-22T09:00:00Z')
  let asked = 0
  const userinfo = Promise.withResolvers<URL>()
  onTestFinished(() => userinfo.reject(new Error('The test is over')))
  const learn = createProfileLearner({
    db: undefined as never, // nothing is learned: userinfo is not found before the end
    now: () => new Date(at),
    logger: createLogger('test', 'silent'),
    userinfoEndpoint: () => {
      asked++
      return userinfo.promise
    },
  })
  const askWith = (...scopes: string[]): number => {
    learn('ana', 'token', new Set(scopes), undefined)
    return asked
  }
  expect(askWith('email')).toBe(0)
  expect(askWith('openid', 'email')).toBe(1)
  at += 599_000
  expect(askWith('openid', 'email')).toBe(1)
  expect(askWith('openid', 'email', 'profile')).toBe(2)
  at += 1_001
  expect(askWith('openid', 'email')).toBe(3)
})
