import { expect, test } from 'vitest'
import { BrokenStream, chatStream, FailedMidway, openStreamReader } from './stream-reader.ts'

const open = () => openStreamReader({ protocol: chatStream, dropsUsage: false })
const event = (value: object) => Buffer.from(`data: ${JSON.stringify(value)}\n\n`)
const piece = (index: number, content: string, finish: string | null = null) =>
  event({ choices: [{ index, delta: { content }, finish_reason: finish }] })
const usage = event({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 7 } })

test('a stream that ends before each of its choices did was cut', () => {
  const cut = open()
  for (const bytes of [piece(0, 'a'), piece(1, 'b'), piece(0, '', 'stop')]) cut.push(bytes)
  expect(() => cut.end()).toThrow(BrokenStream)
  const whole = open()
  for (const bytes of [piece(0, 'a'), piece(1, 'b'), piece(0, '', 'stop'), piece(1, '', 'length')]) whole.push(bytes)
  expect(whole.end()?.toString()).toBe('data: [DONE]\n\n')
})

test('usage is final once the text has ended, and not what is told on the way', () => {
  const reader = open()
  reader.push(
    event({ choices: [{ index: 0, delta: { content: 'a' } }], usage: { prompt_tokens: 3, completion_tokens: 1 } }),
  )
  expect([reader.usage?.outputTokens, reader.finalUsage]).toEqual([1, undefined])
  reader.push(piece(0, '', 'stop'))
  expect(reader.finalUsage).toBeUndefined()
  reader.push(usage)
  expect(reader.finalUsage).toMatchObject({ inputTokens: 3, outputTokens: 7 })
})

test('a failure that the provider tells of is another than an event that cannot be read', () => {
  expect(() => open().push(event({ error: { message: 'Overloaded' } }))).toThrow(FailedMidway)
  const caught = (() => {
    try {
      return open().push(Buffer.from('data: {"choices":\n\n'))
    } catch (error) {
      return error
    }
  })()
  expect(caught).toBeInstanceOf(BrokenStream)
  expect(caught).not.toBeInstanceOf(FailedMidway)
})
