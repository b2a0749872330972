import { memberOf } from './record.ts'

/**
 * The usage of a request, in disjoint buckets. Tokens are integers of at least 0.
 */
export interface Usage {
  /** Uncached tokens of text and images. */
  inputTokens: number
  cacheReadTokens: number
  cacheWriteTokens: number
  inputAudioTokens: number
  /** Tokens of text, without reasoning. */
  outputTokens: number
  reasoningTokens: number
  outputAudioTokens: number
  /** Seconds of audio, for a transcription billed by duration. May be fractional. */
  audioSeconds: number
  /** Characters of speech, if billed by character. */
  characters: number
}

/** The usage of a request that used nothing. */
export const noUsage: Readonly<Usage> = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  inputAudioTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  outputAudioTokens: 0,
  audioSeconds: 0,
  characters: 0,
}

/** Returns all tokens of the input, including cached ones and audio. */
export function totalInput(usage: Usage): number {
  return usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.inputAudioTokens
}

/** Returns all tokens of the output, including reasoning and audio. */
export function totalOutput(usage: Usage): number {
  return usage.outputTokens + usage.reasoningTokens + usage.outputAudioTokens
}

/** No answer has a millionth of this. Larger figures are rejected: sums of such numbers and their prices would overflow. */
const TOKENS_MAX = 1e12
/** Over a hundred days. */
const SECONDS_MAX = 1e7

/** Returns a number of tokens; undefined if invalid. */
function tokensOf(value: unknown, name: string): number | undefined {
  const tokens = memberOf(value, name)
  return typeof tokens === 'number' && Number.isInteger(tokens) && tokens >= 0 && tokens <= TOKENS_MAX
    ? tokens
    : undefined
}

/** Returns a detail of a total; if missing or invalid, its tokens stay in the total's main bucket. */
function detailOf(value: unknown, name: string): number {
  return tokensOf(value, name) ?? 0
}

function inputOf(
  total: number,
  read: number,
  write: number,
  audio: number,
): Pick<Usage, 'inputTokens' | 'cacheReadTokens' | 'cacheWriteTokens' | 'inputAudioTokens'> {
  const cacheReadTokens = Math.min(read, total)
  const cacheWriteTokens = Math.min(write, total - cacheReadTokens)
  const inputAudioTokens = Math.min(audio, total - cacheReadTokens - cacheWriteTokens)
  const inputTokens = total - cacheReadTokens - cacheWriteTokens - inputAudioTokens
  return { inputTokens, cacheReadTokens, cacheWriteTokens, inputAudioTokens }
}

function outputOf(
  total: number,
  reasoning: number,
  audio: number,
): Pick<Usage, 'outputTokens' | 'reasoningTokens' | 'outputAudioTokens'> {
  const reasoningTokens = Math.min(reasoning, total)
  const outputAudioTokens = Math.min(audio, total - reasoningTokens)
  return { outputTokens: total - reasoningTokens - outputAudioTokens, reasoningTokens, outputAudioTokens }
}

/**
 * Reads the `usage` of a chat completion or of its last chunk. Details that exceed their total are cut to it, cache before audio
 * and reasoning before audio. Some upstreams count reasoning beside `completion_tokens`, not in it, and Gemini's compatible
 * endpoint does so without reporting how much: their `total_tokens` shows it.
 *
 * Returns undefined if the value is absent or its totals are invalid.
 */
export function usageOfChat(value: unknown): Usage | undefined {
  const input = tokensOf(value, 'prompt_tokens')
  const output = tokensOf(value, 'completion_tokens')
  if (input === undefined || output === undefined) return undefined
  const inputDetails = memberOf(value, 'prompt_tokens_details')
  const outputDetails = memberOf(value, 'completion_tokens_details')
  const reasoning = detailOf(outputDetails, 'reasoning_tokens')
  const excess = (tokensOf(value, 'total_tokens') ?? 0) - input - output
  const beside = excess > 0 && (reasoning === 0 || reasoning === excess) ? excess : 0
  return {
    ...noUsage,
    ...inputOf(
      input,
      detailOf(inputDetails, 'cached_tokens'),
      detailOf(inputDetails, 'cache_write_tokens'),
      detailOf(inputDetails, 'audio_tokens'),
    ),
    ...outputOf(output + beside, Math.max(reasoning, beside), detailOf(outputDetails, 'audio_tokens')),
  }
}

/**
 * Reads the `usage` of a response (`POST /responses`). Details that exceed their total are cut to it.
 *
 * Returns undefined if the value is absent or its totals are invalid.
 */
export function usageOfResponse(value: unknown): Usage | undefined {
  const input = tokensOf(value, 'input_tokens')
  const output = tokensOf(value, 'output_tokens')
  if (input === undefined || output === undefined) return undefined
  const details = memberOf(value, 'input_tokens_details')
  return {
    ...noUsage,
    ...inputOf(input, detailOf(details, 'cached_tokens'), detailOf(details, 'cache_write_tokens'), 0),
    ...outputOf(output, detailOf(memberOf(value, 'output_tokens_details'), 'reasoning_tokens'), 0),
  }
}

const MESSAGES_FIGURES = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens']

/**
 * Merges the `usage` of a later event of an Anthropic stream into that of earlier ones. Figures are cumulative, so they replace
 * earlier ones; invalid figures are ignored. Only figures that `usageOfMessages` reads are kept.
 */
export function mergeMessagesUsage(earlier: Record<string, unknown>, later: unknown): Record<string, unknown> {
  const merged = { ...earlier }
  for (const name of MESSAGES_FIGURES) {
    const tokens = tokensOf(later, name)
    if (tokens !== undefined) merged[name] = tokens
  }
  const thinking = tokensOf(memberOf(later, 'output_tokens_details'), 'thinking_tokens')
  if (thinking !== undefined) merged['output_tokens_details'] = { thinking_tokens: thinking }
  return merged
}

/**
 * Reads the `usage` of an Anthropic message. Its `input_tokens` exclude tokens read from or written to the cache. For a stream,
 * first merge the usage of `message_start` and `message_delta` by `mergeMessagesUsage`.
 *
 * Returns undefined if the value is absent or its totals are invalid.
 */
export function usageOfMessages(value: unknown): Usage | undefined {
  const inputTokens = tokensOf(value, 'input_tokens')
  const output = tokensOf(value, 'output_tokens')
  if (inputTokens === undefined || output === undefined) return undefined
  return {
    ...noUsage,
    inputTokens,
    cacheReadTokens: detailOf(value, 'cache_read_input_tokens'),
    cacheWriteTokens: detailOf(value, 'cache_creation_input_tokens'),
    ...outputOf(output, detailOf(memberOf(value, 'output_tokens_details'), 'thinking_tokens'), 0),
  }
}

/**
 * Reads the `usage` of a transcription, which is of type `tokens` or `duration`.
 *
 * Returns undefined if the value is absent or its figures are invalid.
 */
export function usageOfTranscription(value: unknown): Usage | undefined {
  if (memberOf(value, 'type') === 'duration') {
    const seconds = memberOf(value, 'seconds')
    if (typeof seconds !== 'number' || !(seconds >= 0 && seconds <= SECONDS_MAX)) return undefined
    return { ...noUsage, audioSeconds: seconds }
  }
  const input = tokensOf(value, 'input_tokens')
  const output = tokensOf(value, 'output_tokens')
  if (input === undefined || output === undefined) return undefined
  const audio = detailOf(memberOf(value, 'input_token_details'), 'audio_tokens')
  return { ...noUsage, ...inputOf(input, 0, 0, audio), outputTokens: output }
}

/**
 * Reads the `usage` of `speech.audio.done`: tokens of the spoken text and of the audio.
 *
 * Returns undefined if the value is absent or its totals are invalid.
 */
export function usageOfSpeech(value: unknown): Usage | undefined {
  const inputTokens = tokensOf(value, 'input_tokens')
  const outputAudioTokens = tokensOf(value, 'output_tokens')
  if (inputTokens === undefined || outputAudioTokens === undefined) return undefined
  return { ...noUsage, inputTokens, outputAudioTokens }
}

/** The `usage` of a chat completion. */
export interface ChatUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details: { cached_tokens: number; cache_write_tokens: number; audio_tokens: number }
  completion_tokens_details: { reasoning_tokens: number; audio_tokens: number }
}

/** Formats usage for a chat completion. */
export function toChatUsage(usage: Usage): ChatUsage {
  return {
    prompt_tokens: totalInput(usage),
    completion_tokens: totalOutput(usage),
    total_tokens: totalInput(usage) + totalOutput(usage),
    prompt_tokens_details: {
      cached_tokens: usage.cacheReadTokens,
      cache_write_tokens: usage.cacheWriteTokens,
      audio_tokens: usage.inputAudioTokens,
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens, audio_tokens: usage.outputAudioTokens },
  }
}

/** The `usage` of a response. */
export interface ResponseUsage {
  input_tokens: number
  input_tokens_details: { cached_tokens: number; cache_write_tokens: number }
  output_tokens: number
  output_tokens_details: { reasoning_tokens: number }
  total_tokens: number
}

/** Formats usage for a response. */
export function toResponseUsage(usage: Usage): ResponseUsage {
  return {
    input_tokens: totalInput(usage),
    input_tokens_details: { cached_tokens: usage.cacheReadTokens, cache_write_tokens: usage.cacheWriteTokens },
    output_tokens: totalOutput(usage),
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: totalInput(usage) + totalOutput(usage),
  }
}
