import { randomBytes } from 'node:crypto'
import { z } from '@hono/zod-openapi'
import { createSealer } from '@platform/runtime/seal'
import { expect, test } from 'vitest'
import {
  asWholeSet,
  cursorPage,
  cursorQuery,
  keysetQuery,
  offsetPage,
  offsetQuery,
  page,
  readCursor,
  writeCursor,
} from './pages.ts'

const sealer = createSealer([{ id: 'k1', key: randomBytes(32) }])
const of = { operation: 'listObjects', ownerId: 'b1', filters: { prefix: 'a/', delimiter: '/' } }
const position = z.strictObject({ after: z.string(), total: z.number() })

test.each([
  ['keyset', z.object(keysetQuery), { limit: 10 }, 100],
  ['cursor', z.object(cursorQuery()), { limit: 100 }, 1_000],
  ['usage cursor', z.object(cursorQuery(500)), { limit: 100 }, 500],
  ['offset', z.object(offsetQuery), { limit: 100, offset: 0 }, 1_000],
])('a %s query has its default and takes 1 to its limit (A §1, §8)', (_, schema, byDefault, max) => {
  expect(schema.parse({})).toEqual(byDefault)
  expect(schema.parse({ limit: String(max) }).limit).toBe(max)
  for (const bad of ['0', String(max + 1), '-1', '1.5', '1e1', ' 1', '', '٣'])
    expect([bad, schema.safeParse({ limit: bad }).success]).toEqual([bad, false])
})

test('each style answers the members that its callers know (A §1)', () => {
  const item = z.string()
  expect(page(item).parse(asWholeSet(['a', 'b']))).toEqual({ items: ['a', 'b'], total: 2 })
  expect(cursorPage(item).parse({ items: [], total: 0, nextCursor: null })).toEqual({
    items: [],
    total: 0,
    nextCursor: null,
  })
  expect(offsetPage(item).parse({ items: [], totalItems: 0, limit: 100, offset: 0 })).toEqual({
    items: [],
    totalItems: 0,
    limit: 100,
    offset: 0,
  })
})

test('a cursor gives its position back, and shows nothing of it (D33)', () => {
  const cursor = writeCursor(sealer, of, { after: 'a/secret-name', total: 7 })
  expect(cursor).toMatch(/^[\w-]+\.[\w-]+$/)
  expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toContain('secret')
  const reordered = { ...of, filters: { delimiter: '/', prefix: 'a/' } }
  expect(readCursor(sealer, reordered, position, cursor)).toEqual({ after: 'a/secret-name', total: 7 })
})

test.each([
  ['of another operation', { ...of, operation: 'listTrash' }],
  ['of another owner', { ...of, ownerId: 'b2' }],
  ['under another filter', { ...of, filters: { ...of.filters, prefix: 'b/' } }],
  ['without a filter', { ...of, filters: {} }],
])('a cursor %s is a 400 (D15, D33)', (_, other) => {
  const cursor = writeCursor(sealer, of, { after: 'x', total: 1 })
  expect(() => readCursor(sealer, other, position, cursor)).toThrow('does not belong to this list')
})

test('a cursor that was changed, made up, or of another shape is a 400 (D15, D33)', () => {
  const cursor = writeCursor(sealer, of, { after: 'x', total: 1 })
  const [id, sealed = ''] = cursor.split('.')
  const changed = Buffer.from(sealed, 'base64url')
  changed[30] = (changed[30] ?? 0) ^ 1
  const bad = [
    '',
    '.',
    'x',
    'x.y',
    `${id}.`,
    `${id}.${changed.toString('base64url')}`,
    Buffer.from('{"after":"x"}').toString('base64url'),
    writeCursor(sealer, of, { other: 1 }),
  ]
  for (const text of bad)
    expect(() => readCursor(sealer, of, position, text), text).toThrow('does not belong to this list')
})
