import { BODY_MS } from '@platform/service/read-body'
import { expect, test } from 'vitest'
import { DEADLINE_MS } from './exchange.ts'

test('a body that does not arrive is reported before the deadline of the operation, which would be a 503', () => {
  expect(BODY_MS).toBeLessThan(DEADLINE_MS)
})
