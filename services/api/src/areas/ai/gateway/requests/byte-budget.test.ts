import { Unavailable } from '@platform/errors/api-error'
import { expect, test } from 'vitest'
import { createByteBudget, holdBytes } from './byte-budget.ts'

test('of bodies that come at the same time and are too many together, the others go on', () => {
  const budget = createByteBudget(100, 100)
  const [first, second, third] = [holdBytes(budget, 'ana'), holdBytes(budget, 'ana'), holdBytes(budget, 'ana')]
  for (const each of [first, second, third]) each.take(30)
  expect(() => third.take(30)).toThrow(Unavailable)
  // Before anybody else runs.
  for (const each of [first, second]) each.take(20)
  for (const each of [first, second, third]) each.release()
  expect(() => holdBytes(budget, 'ana').take(100)).not.toThrow()
})

test('a caller has no more than its share', () => {
  const budget = createByteBudget(100, 60)
  holdBytes(budget, 'ana').take(60)
  expect(() => holdBytes(budget, 'ana').take(1)).toThrow(Unavailable)
  const other = holdBytes(budget, 'ben')
  other.take(40)
  expect(() => holdBytes(budget, 'cleo').take(1)).toThrow(Unavailable)
  other.release()
  other.release()
  expect(() => holdBytes(budget, 'ben').take(41)).toThrow(Unavailable)
  expect(() => holdBytes(budget, 'ben').take(40)).not.toThrow()
})
