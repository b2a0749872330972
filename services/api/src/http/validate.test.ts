import { z } from '@hono/zod-openapi'
import { ValidationFailed } from '@platform/errors/api-error'
import { expect, test } from 'vitest'
import { parseInput } from './validate.ts'

/** The failures of a body, without what was found. */
function failuresOf(schema: z.ZodType, body: unknown) {
  try {
    parseInput(schema, body, 'body')
  } catch (error) {
    if (error instanceof ValidationFailed)
      return error.failures.map(({ property, summary, expected }) => [property, summary, expected])
    throw error
  }
  return []
}

const part = z.union([
  z.strictObject({ kind: z.literal('text'), text: z.string() }),
  z.strictObject({ kind: z.literal('number'), value: z.number(), unit: z.union([z.string(), z.array(z.string())]) }),
])
const content = z.strictObject({ content: z.union([z.string(), z.array(part).max(2)]) })

test('what is wrong in a union within a union is named with its whole path', () => {
  expect(
    failuresOf(content, {
      content: [
        { kind: 'text', text: 'x' },
        { kind: 'number', value: 'x', unit: [5] },
      ],
    }),
  ).toEqual([
    ['/content/1/value', 'Invalid input: expected number, received string', 'number'],
    ['/content/1/unit/0', 'Invalid input: expected string, received number', 'string'],
  ])
  expect(failuresOf(content, { content: [{ kind: 'text' }] })).toEqual([['/content/0/text', 'Required', 'string']])
  expect(failuresOf(content, { content: [{ kind: 'text', text: 'x', bold: true }, 7] })).toEqual([
    ['/content/0/bold', 'Unknown member', 'no such member'],
    ['/content/1', 'Invalid input: expected object', ['object']],
  ])
})

test('a value that fits no branch of a union is told what each expects', () => {
  expect(failuresOf(content, { content: 7 })).toEqual([
    ['/content', 'Invalid input: expected string or array', ['string', 'array']],
  ])
  expect(failuresOf(z.union([z.literal('auto'), z.number()]), true)).toEqual([
    ['', 'Invalid input: expected auto or number', ['auto', 'number']],
  ])
})

test('a check of the whole value counts as deeper than a wrong type, so a list that is too long is told so', () => {
  const parts = Array.from({ length: 3 }, () => ({ kind: 'text', text: 'x' }))
  expect(failuresOf(content, { content: parts })).toEqual([
    ['/content', expect.stringContaining('Too big'), { maximum: 2 }],
  ])
})
