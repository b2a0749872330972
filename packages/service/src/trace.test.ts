import { expect, test } from 'vitest'
import { readTrace, traceHeaders } from './trace.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'

test('a trace goes on under its own id, flags and state, and a new span', () => {
  const trace = readTrace(`00-${traceId}-${parentId}-01`, 'a=1,b=2')
  expect(trace).toEqual({ traceId, flags: '01', state: 'a=1,b=2' })
  const { traceparent, tracestate } = traceHeaders(trace)
  expect(traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`))
  expect(traceparent).not.toContain(parentId)
  expect(tracestate).toBe('a=1,b=2')
  expect(traceHeaders(undefined)).toEqual({})
})

test('a later version is read as far as it is known', () => {
  expect(readTrace(`cc-${traceId}-${parentId}-00-more`, undefined)?.traceId).toBe(traceId)
})

test.each([
  '',
  'x',
  `ff-${traceId}-${parentId}-01`,
  `00-${'0'.repeat(32)}-${parentId}-01`,
  `00-${traceId}-${'0'.repeat(16)}-01`,
  `00-${traceId}-${parentId}-01-more`,
  `00-${traceId.toUpperCase()}-${parentId}-01`,
  `00-${traceId}-${parentId}`,
  `00-${traceId}-${parentId}-01\n`,
])('%j is no trace', (header) => {
  expect(readTrace(header, 'a=1')).toBeUndefined()
})
