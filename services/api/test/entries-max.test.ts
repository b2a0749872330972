import { entriesMax } from '@platform/runtime/entries-max'
import { LRUCache } from 'lru-cache'
import { expect, test } from 'vitest'

test('a cache of three entries drops the one that was used longest ago, and tells of it', () => {
  const dropped: string[] = []
  const cache = new LRUCache<string, number>({ ...entriesMax(3), dispose: (_, key) => void dropped.push(key) })
  for (const [key, value] of Object.entries({ a: 1, b: 2, c: 3 })) cache.set(key, value)
  cache.get('a')
  cache.set('c', 4)
  cache.set('d', 5)
  expect([...cache.keys()]).toEqual(['d', 'c', 'a'])
  expect(dropped).toEqual(['c', 'b'])
  expect(cache.get('c')).toBe(4)
})
