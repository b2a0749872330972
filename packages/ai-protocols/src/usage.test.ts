import type Anthropic from '@anthropic-ai/sdk'
import * as fc from 'fast-check'
import type OpenAI from 'openai'
import { expect, test } from 'vitest'
import {
  noUsage,
  toChatUsage,
  toResponseUsage,
  totalInput,
  totalOutput,
  type Usage,
  usageOfChat,
  usageOfMessages,
  usageOfResponse,
  usageOfSpeech,
  usageOfTranscription,
} from './usage.ts'

test('the usage of a chat is taken apart', () => {
  const usage = usageOfChat({
    prompt_tokens: 100,
    completion_tokens: 50,
    total_tokens: 150,
    prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 20, audio_tokens: 10, image_tokens: 5 },
    completion_tokens_details: { reasoning_tokens: 15, audio_tokens: 5, rejected_prediction_tokens: 3 },
  } satisfies OpenAI.CompletionUsage)
  expect(usage).toEqual({
    ...noUsage,
    inputTokens: 40,
    cacheReadTokens: 30,
    cacheWriteTokens: 20,
    inputAudioTokens: 10,
    outputTokens: 30,
    reasoningTokens: 15,
    outputAudioTokens: 5,
  })
})

test('a zero is a figure', () => {
  expect(usageOfChat({ prompt_tokens: 0, completion_tokens: 0 })).toEqual(noUsage)
})

test('details that exceed their total are cut to it', () => {
  const usage = usageOfChat({
    prompt_tokens: 10,
    completion_tokens: 5,
    prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 8, audio_tokens: 8 },
    completion_tokens_details: { reasoning_tokens: 9, audio_tokens: 9 },
  })
  expect(usage).toEqual({ ...noUsage, cacheReadTokens: 8, cacheWriteTokens: 2, reasoningTokens: 5 })
})

test('details that are none leave the tokens where they are', () => {
  const details = { cached_tokens: null, audio_tokens: -1, cache_write_tokens: '3' }
  expect(usageOfChat({ prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: details })).toEqual({
    ...noUsage,
    inputTokens: 10,
    outputTokens: 5,
  })
})

test('reasoning that an upstream counts beside the completion is added to it', () => {
  const usage = { prompt_tokens: 10, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 300 } }
  expect(usageOfChat({ ...usage, total_tokens: 315 })).toMatchObject({ outputTokens: 5, reasoningTokens: 300 })
  expect(usageOfChat({ ...usage, total_tokens: 15 })).toMatchObject({ outputTokens: 0, reasoningTokens: 5 })
})

test('reasoning that only the total tells of is counted', () => {
  const usage = { prompt_tokens: 10, completion_tokens: 5 }
  expect(usageOfChat({ ...usage, total_tokens: 315 })).toEqual({
    ...noUsage,
    inputTokens: 10,
    outputTokens: 5,
    reasoningTokens: 300,
  })
  for (const total_tokens of [0, 14, -1, 1e300, NaN, '315', null]) {
    expect(usageOfChat({ ...usage, total_tokens })).toEqual({ ...noUsage, inputTokens: 10, outputTokens: 5 })
  }
})

test('the usage of a response is taken apart', () => {
  const usage = usageOfResponse({
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 30, cache_write_tokens: 20 },
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 15 },
    total_tokens: 150,
  } satisfies OpenAI.Responses.ResponseUsage)
  expect(usage).toEqual({
    ...noUsage,
    inputTokens: 50,
    cacheReadTokens: 30,
    cacheWriteTokens: 20,
    outputTokens: 35,
    reasoningTokens: 15,
  })
})

test('the input of a message excludes its cache', () => {
  const usage = usageOfMessages({
    input_tokens: 100,
    cache_read_input_tokens: 1000,
    cache_creation_input_tokens: 200,
    output_tokens: 50,
    output_tokens_details: { thinking_tokens: 20 },
    cache_creation: null,
    inference_geo: null,
    server_tool_use: null,
    service_tier: 'standard',
    speed: null,
  } satisfies Anthropic.Usage)
  expect(usage).toEqual({
    ...noUsage,
    inputTokens: 100,
    cacheReadTokens: 1000,
    cacheWriteTokens: 200,
    outputTokens: 30,
    reasoningTokens: 20,
  })
})

test('a transcription is billed by tokens or by seconds', () => {
  const tokens = {
    type: 'tokens',
    input_tokens: 14,
    input_token_details: { text_tokens: 4, audio_tokens: 10 },
    output_tokens: 45,
    total_tokens: 59,
  } satisfies OpenAI.Audio.Transcription.Tokens
  const duration = { type: 'duration', seconds: 1.5 } satisfies OpenAI.Audio.Transcription.Duration
  expect(usageOfTranscription(tokens)).toEqual({ ...noUsage, inputTokens: 4, inputAudioTokens: 10, outputTokens: 45 })
  expect(usageOfTranscription(duration)).toEqual({ ...noUsage, audioSeconds: 1.5 })
})

test.each([-1, NaN, Infinity, '2', null, undefined])('%s seconds are no duration', (seconds) => {
  expect(usageOfTranscription({ type: 'duration', seconds })).toBeUndefined()
})

test('speech puts out sound', () => {
  expect(usageOfSpeech({ input_tokens: 14, output_tokens: 101, total_tokens: 115 })).toEqual({
    ...noUsage,
    inputTokens: 14,
    outputAudioTokens: 101,
  })
})

const readers = { usageOfChat, usageOfResponse, usageOfMessages, usageOfTranscription, usageOfSpeech }

test.each(Object.entries(readers))('%s reads nothing from nonsense', (_, read) => {
  for (const nonsense of [-1, NaN, 1.5, Infinity, 2 ** 53, 1e300, '1', '', null, undefined, true, {}, [1]]) {
    const input = { prompt_tokens: nonsense, input_tokens: nonsense, completion_tokens: 1, output_tokens: 1 }
    const output = { prompt_tokens: 1, input_tokens: 1, completion_tokens: nonsense, output_tokens: nonsense }
    expect([read(nonsense), read(input), read(output)]).toEqual([undefined, undefined, undefined])
  }
})

const count = fc.oneof(fc.nat(20), fc.constantFrom(null, -1, 0.5, '3', NaN, 1e300), fc.constant(undefined))
const details = fc.record({
  cached_tokens: count,
  cache_write_tokens: count,
  audio_tokens: count,
  reasoning_tokens: count,
  thinking_tokens: count,
})

test('the buckets are counts, and add up to the totals', () => {
  fc.assert(
    fc.property(fc.nat(20), fc.nat(20), details, (input, output, detail) => {
      const value = {
        prompt_tokens: input,
        completion_tokens: output,
        prompt_tokens_details: detail,
        completion_tokens_details: detail,
        input_tokens: input,
        output_tokens: output,
        input_tokens_details: detail,
        output_tokens_details: detail,
        input_token_details: detail,
      }
      for (const read of Object.values(readers)) {
        const usage: Usage = read(value) ?? { ...noUsage, inputTokens: NaN }
        expect(Object.values(usage).every((bucket) => Number.isInteger(bucket) && bucket >= 0)).toBe(true)
        expect([totalInput(usage), totalOutput(usage)]).toEqual([input, output])
      }
    }),
  )
})

test('usage that is written is read as the same', () => {
  const figure = fc.nat(1e6)
  const buckets = fc.record({
    inputTokens: figure,
    cacheReadTokens: figure,
    cacheWriteTokens: figure,
    inputAudioTokens: figure,
    outputTokens: figure,
    reasoningTokens: figure,
    outputAudioTokens: figure,
  })
  fc.assert(
    fc.property(buckets, (used) => {
      const usage: Usage = { ...noUsage, ...used }
      expect(usageOfChat(toChatUsage(usage))).toEqual(usage)
      // A response does not report audio.
      const silent = { ...usage, inputAudioTokens: 0, outputAudioTokens: 0 }
      expect(usageOfResponse(toResponseUsage(silent))).toEqual(silent)
    }),
  )
})
