import { createResponseEventTranslator } from '@platform/ai-protocols/chat-to-responses'
import { expect, test } from 'vitest'
import { BrokenStream, chatStream, FailedMidway, openStreamReader, responseStream } from './stream-reader.ts'

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

test('an empty reason, which some send with each chunk, ends no choice', () => {
  const reader = open()
  reader.push(piece(0, 'Hel', ''))
  expect(() => reader.end()).toThrow(BrokenStream)
})

test.each([
  ['many elements', `[${'[],'.repeat(1_000_000)}[]]`],
  ['great depth', `${'['.repeat(600_000)}${']'.repeat(600_000)}`],
])('an event of %s is refused before it is parsed', (_, json) => {
  expect(() => open().push(Buffer.from(`data: {"choices":[],"x":${json}}\n\n`))).toThrow('An event is too large')
})

test('an event that is deep and not large is passed on, as itself and translated', () => {
  const deep = Buffer.from(`data: {"choices":[],"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}\n\n`)
  expect(open().push(deep)).toEqual(deep)
  const names = { id: 'resp_1', createdAt: 1, newItemId: (prefix: string) => `${prefix}_1` }
  const translator = createResponseEventTranslator({ model: 'm', input: 'x' }, names)
  const target = { push: (chunk: unknown) => translator.pushChunk(chunk), end: () => translator.end() }
  const translated = openStreamReader({ protocol: responseStream, target, dropsUsage: false })
  expect(translated.push(deep)?.toString()).toMatch(/^event: response.created\n/)
})
