import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { arrayLiteral, keysAsRows, batchPerTick } from './batch-per-tick.ts'

test('what is asked for in one tick is asked for once, and each gets its own answer', async () => {
  const batches: (readonly number[])[] = []
  const double = batchPerTick(async (keys: readonly number[]) => {
    batches.push(keys)
    return keys.map((key) => (key === 3 ? undefined : key * 2))
  })
  expect(await Promise.all([1, 2, 3, 2].map(double))).toEqual([2, 4, undefined, 4])
  await nextTurn()
  expect(await double(5)).toBe(10)
  expect(batches).toEqual([[1, 2, 3, 2], [5]])
})

test('more than 200 are asked for in several goes, and one that fails fails its own', async () => {
  const sizes: number[] = []
  const load = batchPerTick(async (keys: readonly number[]) => {
    sizes.push(keys.length)
    if (keys.includes(250)) throw new Error('away')
    return keys
  })
  const settled = await Promise.allSettled(Array.from({ length: 450 }, (_, i) => load(i)))
  expect(sizes).toEqual([200, 200, 50])
  expect(settled.map(({ status }) => status)).toEqual(
    Array.from({ length: 450 }, (_, i) => (i >= 200 && i < 400 ? 'rejected' : 'fulfilled')),
  )
})

test('an array of any text is one that Postgres reads', () => {
  expect(arrayLiteral(['a', null, 'NULL', 'b"c', 'd\\e', 'f,{}g', ''])).toBe(
    String.raw`{"a",NULL,"NULL","b\"c","d\\e","f,{}g",""}`,
  )
})

test('the rows of a batch are put back to what asked for them', () => {
  const lookups = keysAsRows({ id: 'uuid', generation: 'int' })
  const keys = [
    { id: 'a', generation: 1 },
    { id: null, generation: 2 },
    { id: 'c', generation: 3 },
  ]
  expect(lookups.parameters(keys)).toEqual({ 'asked.id': '{"a",NULL,"c"}', 'asked.generation': '{"1","2","3"}' })
  expect(
    lookups.inOrder(keys, [
      { n: 3, is: 'of c' },
      { n: 1, is: 'of a' },
    ]),
  ).toEqual([{ n: 1, is: 'of a' }, undefined, { n: 3, is: 'of c' }])
})
