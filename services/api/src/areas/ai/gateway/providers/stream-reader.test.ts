import { createResponseEventTranslator } from '@platform/ai-protocols/chat-to-responses'
import { createChatChunkTranslator } from '@platform/ai-protocols/messages-to-chat'
import { describe, expect, test } from 'vitest'
import { BrokenStream, chatStream, ToldFailure, openStreamReader, responseStream } from './stream-reader.ts'

const open = () => openStreamReader({ protocol: chatStream, dropsUsage: false })
const event = (value: object) => Buffer.from(`data: ${JSON.stringify(value)}\n\n`)
const piece = (index: number, content: string, finish: string | null = null) =>
  event({ choices: [{ index, delta: { content }, finish_reason: finish }] })
const usage = event({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 7 } })

/** Opens a reader of chunks for a caller of /responses. */
const openTranslated = () => {
  const names = { id: 'resp_1', createdAt: 1, newItemId: (prefix: string) => `${prefix}_1` }
  const translator = createResponseEventTranslator({ model: 'm', input: 'x' }, names)
  const target = { push: (chunk: unknown) => translator.pushChunk(chunk), end: () => translator.end() }
  return openStreamReader({ protocol: responseStream, target, dropsUsage: false })
}

const caught = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

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
  expect(() => open().push(event({ error: { message: 'Overloaded' } }))).toThrow(ToldFailure)
  const unreadable = caught(() => open().push(Buffer.from('data: {"choices":\n\n')))
  expect(unreadable).toBeInstanceOf(BrokenStream)
  expect(unreadable).not.toBeInstanceOf(ToldFailure)
})

test('an empty reason, which some send with each chunk, ends no choice', () => {
  const reader = open()
  reader.push(piece(0, 'Hel', ''))
  expect(() => reader.end()).toThrow(BrokenStream)
})

test.each([
  ['many elements', `[${'[],'.repeat(5_000_000)}[]]`],
  ['great depth', `${'['.repeat(600_000)}${']'.repeat(600_000)}`],
])('an event of %s is refused before it is parsed', (_, json) => {
  const first = piece(0, 'a').toString()
  const failure = caught(() => open().push(Buffer.from(`${first}data: {"choices":[],"x":${json}}\n\n`)))
  expect(failure).toBeInstanceOf(BrokenStream)
  const { message, before } = failure as BrokenStream
  // Events before it in the same chunk still reach the caller.
  expect([message, before?.toString()]).toEqual(['An event is too large', first])
})

test('an event that is deep and not large is passed on, as itself and translated', () => {
  const deep = Buffer.from(`data: {"choices":[],"x":${'['.repeat(20_000)}${']'.repeat(20_000)}}\n\n`)
  expect(open().push(deep)).toEqual(deep)
  const translated = openTranslated()
  expect(translated.push(deep)?.toString()).toMatch(/^event: response.created\n/)
})

describe('a stream of chunks that is done', () => {
  const done = Buffer.from('data: [DONE]\n\n')
  const created = event({ type: 'response.created', response: { id: 'resp_1' } })
  test('without any choice is broken, and without the reason of a choice is not', () => {
    expect(() => open().push(done)).toThrow(BrokenStream)
    const reader = open()
    reader.push(piece(0, 'a'))
    expect(reader.push(done)).toEqual(done)
  })

  test('ends no answer of typed events, nor one of a provider that speaks no chat', () => {
    const responses = openStreamReader({ protocol: responseStream, dropsUsage: false })
    responses.push(created)
    expect(() => responses.push(done)).toThrow(BrokenStream)
    const source = createChatChunkTranslator({ id: 'c', created: 1, model: 'm', includeUsage: true })
    expect(() => openStreamReader({ protocol: chatStream, source, dropsUsage: false }).push(done)).toThrow(BrokenStream)
  })
})

describe('a response that is made of a chat', () => {
  test('has a bound, since its last events repeat it', () => {
    const reader = openTranslated()
    const mebibyte = piece(0, 'x'.repeat(1_048_576))
    for (let n = 0; n < 8; n++) reader.push(mebibyte)
    expect(() => reader.push(mebibyte)).toThrow('The answer is too large')
  })

  test('fails behind the events that came before', () => {
    const failure = caught(() => openTranslated().push(Buffer.from('data: [DONE]\n\n')))
    expect(failure).toBeInstanceOf(ToldFailure)
    expect((failure as ToldFailure).before?.toString()).toMatch(/^event: response.created\n.*"sequence_number":0/)
  })
})
