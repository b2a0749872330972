import { expect, test } from 'vitest'
import {
  checkDeleteCondition,
  checkWriteCondition,
  isNotModified,
  readDeleteCondition,
  readWriteCondition,
} from './check-conditions.ts'

const object = { etag: 'e', uploadedAt: new Date('2026-01-02T03:04:05.678Z'), contentLength: 9 }
const DATE = object.uploadedAt.toUTCString()
const EARLIER = 'Fri, 02 Jan 2026 03:04:04 GMT'
const headers = (fields: Record<string, string>) => new Map(Object.entries(fields))

test.each([
  [{}, 'send'],
  [{ 'if-match': '"e"' }, 'send'],
  [{ 'if-match': 'e' }, 'send'],
  [{ 'if-match': '"x", "e"' }, 'send'],
  [{ 'if-match': '*' }, 'send'],
  [{ 'if-match': '"x"' }, 'failed'],
  [{ 'if-none-match': 'W/"e"' }, 'not modified'],
  [{ 'if-none-match': '"x"' }, 'send'],
  [{ 'if-modified-since': DATE }, 'not modified'],
  [{ 'if-modified-since': EARLIER }, 'send'],
  [{ 'if-modified-since': 'never' }, 'send'],
  [{ 'if-unmodified-since': DATE }, 'send'],
  [{ 'if-unmodified-since': EARLIER }, 'failed'],
  // An entity tag takes precedence over a date.
  [{ 'if-match': '"e"', 'if-unmodified-since': EARLIER }, 'send'],
  [{ 'if-none-match': '"x"', 'if-modified-since': DATE }, 'send'],
])('a GET with %o: %s', (conditions, outcome) => {
  const run = () => isNotModified(headers(conditions), object)
  if (outcome === 'failed') expect(run).toThrow(expect.objectContaining({ code: 'PreconditionFailed' }))
  else expect(run()).toBe(outcome === 'not modified')
})

test('a write takes one condition: If-None-Match: * or If-Match', () => {
  expect(readWriteCondition(headers({}))).toBeUndefined()
  expect(readWriteCondition(headers({ 'if-none-match': ' * ' }))).toEqual({ ifNoneMatch: true })
  expect(readWriteCondition(headers({ 'if-match': '"e"' }))).toEqual({ ifMatch: 'e' })
  for (const [conditions, code] of [
    [{ 'if-none-match': '"e"' }, 'NotImplemented'],
    [{ 'if-none-match': '*', 'if-match': '*' }, 'InvalidRequest'],
  ] as const)
    expect(() => readWriteCondition(headers(conditions))).toThrow(expect.objectContaining({ code }))
})

test.each([
  [{ ifNoneMatch: true }, object, 'PreconditionFailed'],
  [{ ifNoneMatch: true }, undefined, undefined],
  [{ ifMatch: 'x' }, object, 'PreconditionFailed'],
  [{ ifMatch: 'e' }, object, undefined],
  [{ ifMatch: '*' }, object, undefined],
  [{ ifMatch: '*' }, undefined, 'NoSuchKey'],
] as const)('a write with %o over %o is met with %s', (condition, present, code) => {
  const run = () => checkWriteCondition(condition, present)
  if (code === undefined) run()
  else expect(run).toThrow(expect.objectContaining({ code }))
})

const deletion = (conditions: Partial<Record<'ifMatch' | 'size' | 'lastModified', string>>) =>
  readDeleteCondition({ ifMatch: undefined, size: undefined, lastModified: undefined, ...conditions })

test.each([
  [{ ifMatch: '*' }, true],
  [{ ifMatch: '"x"' }, false],
  [{ size: '9' }, true],
  [{ size: '8' }, false],
  [{ lastModified: DATE }, true],
  [{ lastModified: EARLIER }, false],
  [{ lastModified: '2026-01-02T03:04:05Z' }, true],
  [{ lastModified: '2026-01-02T03:04:05.678Z' }, true],
  [{ lastModified: '2026-01-02T03:04:05.679Z' }, false],
  [{ ifMatch: '"e"', size: '8' }, false],
])('a deletion of what is %o takes the object: %s', (conditions, holds) => {
  const condition = deletion(conditions)
  if (!condition) throw new Error('no condition')
  if (holds) checkDeleteCondition(condition, object)
  else
    expect(() => checkDeleteCondition(condition, object)).toThrow(
      expect.objectContaining({ code: 'PreconditionFailed' }),
    )
})

test('a deletion with a condition that cannot be read is refused, and without one has none', () => {
  expect(deletion({})).toBeUndefined()
  for (const conditions of [{ size: '-1' }, { size: 'many' }, { lastModified: 'yesterday' }, { lastModified: '2026' }])
    expect(() => deletion(conditions)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }))
})
