// engines: postgres
import { expect, test } from 'vitest'
import * as locks from './advisory-locks.ts'

test('no two locks of a database share a number', () => {
  const { REFRESH_KEYS_LOCK: _ofIdp, REQUEST_LOG_DAYS_LOCK: _ofApi, ...ofBoth } = locks
  for (const service of [
    { ...ofBoth, _ofIdp },
    { ...ofBoth, _ofApi },
  ]) {
    const numbers = Object.values(service)
    expect(new Set(numbers).size).toBe(numbers.length)
  }
})
