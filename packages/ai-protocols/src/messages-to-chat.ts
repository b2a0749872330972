import { isRecord, listOf, memberOf, textOf } from './record.ts'
import type { SseEvent } from './sse-scanner.ts'
import { type ChatUsage, mergeMessagesUsage, toChatUsage, type Usage, usageOfMessages } from './usage.ts'

/** Why a model stopped, in terms of chat completions. */
type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter'

const finishReasons: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

function toFinishReason(stopReason: unknown): FinishReason {
  return (
    (typeof stopReason === 'string' && Object.hasOwn(finishReasons, stopReason) && finishReasons[stopReason]) || 'stop'
  )
}

/** A function call in an answer. */
interface CompletionToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

/** A chat completion translated from a message. */
export interface ChatCompletion {
  id: string
  object: 'chat.completion'
  created: number
  model: string
  choices: {
    index: 0
    message: {
      role: 'assistant'
      content: string | null
      refusal: string | null
      reasoning_content?: string
      tool_calls?: CompletionToolCall[]
    }
    logprobs: null
    finish_reason: FinishReason
  }[]
  usage?: ChatUsage
}

/** Names for an answer: `created` in seconds since 1970, `model` as the caller named it. */
export interface ChatAnswerNames {
  id: string
  created: number
  model: string
}

/** Serializes a value that was parsed from JSON; returns undefined if it is nested too deep. */
function writeJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value ?? {})
  } catch {
    return undefined
  }
}

/**
 * Translates an Anthropic message into a chat completion. Thinking becomes `reasoning_content`, DeepSeek's name for it, which most
 * clients read; blocks without a counterpart in a chat are left out.
 *
 * Returns undefined if the value is not a message.
 */
export function toChatCompletion(
  message: unknown,
  { id, created, model }: ChatAnswerNames,
): ChatCompletion | undefined {
  if (memberOf(message, 'type') !== 'message' || !Array.isArray(memberOf(message, 'content'))) return undefined
  let content: string | null = null
  let reasoning = ''
  const toolCalls: CompletionToolCall[] = []
  for (const block of listOf(message, 'content')) {
    switch (memberOf(block, 'type')) {
      case 'text':
        content = (content ?? '') + (textOf(block, 'text') ?? '')
        break
      case 'thinking':
        reasoning += textOf(block, 'thinking') ?? ''
        break
      case 'tool_use': {
        const callId = textOf(block, 'id')
        const name = textOf(block, 'name')
        const input = writeJson(memberOf(block, 'input'))
        if (callId === undefined || name === undefined || input === undefined) return undefined
        toolCalls.push({ id: callId, type: 'function', function: { name, arguments: input } })
        break
      }
      default:
    }
  }
  const usage = usageOfMessages(memberOf(message, 'usage'))
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content,
          refusal: textOf(memberOf(message, 'stop_details'), 'explanation') ?? null,
          ...(reasoning !== '' && { reasoning_content: reasoning }),
          ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
        },
        logprobs: null,
        finish_reason: toFinishReason(memberOf(message, 'stop_reason')),
      },
    ],
    ...(usage !== undefined && { usage: toChatUsage(usage) }),
  }
}

/** The part of a chunk that extends the answer. */
interface ChatDelta {
  role?: 'assistant'
  content?: string
  refusal?: string
  reasoning_content?: string
  tool_calls?: { index: number; id?: string; type?: 'function'; function: { name?: string; arguments: string } }[]
}

/** A chunk of a streamed chat completion. */
export interface ChatChunk {
  id: string
  object: 'chat.completion.chunk'
  created: number
  model: string
  choices: { index: 0; delta: ChatDelta; logprobs: null; finish_reason: FinishReason | null }[]
  usage?: ChatUsage | null
}

/** An error that the upstream sent in the stream, verbatim. The message may contain anything: the caller decides who sees it. */
interface StreamFailure {
  type: string
  message: string
  /** True if an event was not valid JSON, which is this failure. */
  isUnreadable: boolean
}

/** Translates the events of a streamed message into chunks. */
export interface ChatChunkTranslator {
  /** Translates the next event into chunks. Never throws; after a failure or the end it returns none. */
  push(event: Pick<SseEvent, 'data'>): ChatChunk[]
  /** Returns the chunks that are left where the text has ended and the upstream sends no `message_stop`; none before. */
  end(): ChatChunk[]
  /** Returns whether the message is complete. A stream that ends earlier was cut off. */
  isComplete(): boolean
  /** Returns the failure once the upstream has sent an error, or an event that is not valid JSON. */
  failure(): StreamFailure | undefined
  /** Returns the usage reported so far, whether or not the client requested it. */
  usage(): Usage | undefined
}

function readEvent(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

/**
 * Creates a translator for one streamed Anthropic message. The caller sends `[DONE]` once the message is complete.
 *
 * includeUsage: adds a last chunk with usage and no choices, and `usage: null` to all others, as `stream_options` specifies.
 */
export function createChatChunkTranslator({
  id,
  created,
  model,
  includeUsage,
}: ChatAnswerNames & { includeUsage: boolean }): ChatChunkTranslator {
  let reported: Record<string, unknown> = {}
  const calls = new Map<unknown, { index: number; hasArguments: boolean }>()
  let callCount = 0
  let hasBegun = false
  let hasFinished = false
  let isComplete = false
  let failure: StreamFailure | undefined

  const usage = (): Usage | undefined => usageOfMessages(reported)

  function chunkOf(delta: ChatDelta, finishReason: FinishReason | null = null): ChatChunk {
    const first: ChatDelta = hasBegun ? {} : { role: 'assistant' }
    hasBegun = true
    return {
      id,
      object: 'chat.completion.chunk',
      created,
      model,
      choices: [{ index: 0, delta: { ...first, ...delta }, logprobs: null, finish_reason: finishReason }],
      ...(includeUsage && { usage: null }),
    }
  }

  function finish(stopReason: unknown, explanation?: string): ChatChunk[] {
    if (hasFinished) return []
    hasFinished = true
    return [chunkOf(explanation === undefined ? {} : { refusal: explanation }, toFinishReason(stopReason))]
  }

  function complete(): ChatChunk[] {
    isComplete = true
    const total = usage()
    return includeUsage && total ? [{ ...chunkOf({}), choices: [], usage: toChatUsage(total) }] : []
  }

  function textChunks(name: 'content' | 'reasoning_content', text: string | undefined): ChatChunk[] {
    return text === undefined || text === '' ? [] : [chunkOf({ [name]: text })]
  }

  function argumentChunks(blockIndex: unknown, piece: string | undefined): ChatChunk[] {
    const call = calls.get(blockIndex)
    if (call === undefined || piece === undefined || piece === '') return []
    call.hasArguments = true
    return [chunkOf({ tool_calls: [{ index: call.index, function: { arguments: piece } }] })]
  }

  function startBlock(blockIndex: unknown, block: unknown): ChatChunk[] {
    switch (memberOf(block, 'type')) {
      case 'text':
        return textChunks('content', textOf(block, 'text'))
      case 'thinking':
        return textChunks('reasoning_content', textOf(block, 'thinking'))
      case 'tool_use': {
        const callId = textOf(block, 'id')
        const name = textOf(block, 'name')
        if (callId === undefined || name === undefined || calls.has(blockIndex)) return []
        const index = callCount
        callCount += 1
        calls.set(blockIndex, { index, hasArguments: false })
        const start = chunkOf({
          tool_calls: [{ index, id: callId, type: 'function', function: { name, arguments: '' } }],
        })
        const input = memberOf(block, 'input')
        // Input comes in pieces after an empty object; an upstream that sends all of it at once is supported too.
        const isWhole = isRecord(input) && Object.keys(input).length > 0
        return [start, ...(isWhole ? argumentChunks(blockIndex, writeJson(input)) : [])]
      }
      default:
        return []
    }
  }

  function continueBlock(blockIndex: unknown, delta: unknown): ChatChunk[] {
    switch (memberOf(delta, 'type')) {
      case 'text_delta':
        return textChunks('content', textOf(delta, 'text'))
      case 'thinking_delta':
        return textChunks('reasoning_content', textOf(delta, 'thinking'))
      case 'input_json_delta':
        return argumentChunks(blockIndex, textOf(delta, 'partial_json'))
      default:
        return []
    }
  }

  function stopBlock(blockIndex: unknown): ChatChunk[] {
    const call = calls.get(blockIndex)
    // A call without input has no pieces; clients parse the arguments as JSON.
    return call === undefined || call.hasArguments ? [] : argumentChunks(blockIndex, '{}')
  }

  function translate(event: unknown): ChatChunk[] {
    switch (memberOf(event, 'type')) {
      case 'message_start':
        reported = mergeMessagesUsage(reported, memberOf(memberOf(event, 'message'), 'usage'))
        return hasBegun ? [] : [chunkOf({ content: '' })]
      case 'content_block_start':
        if (hasFinished) return []
        return startBlock(memberOf(event, 'index'), memberOf(event, 'content_block'))
      case 'content_block_delta':
        if (hasFinished) return []
        return continueBlock(memberOf(event, 'index'), memberOf(event, 'delta'))
      case 'content_block_stop':
        if (hasFinished) return []
        return stopBlock(memberOf(event, 'index'))
      case 'message_delta': {
        reported = mergeMessagesUsage(reported, memberOf(event, 'usage'))
        const delta = memberOf(event, 'delta')
        const stopReason = memberOf(delta, 'stop_reason')
        return stopReason == null ? [] : finish(stopReason, textOf(memberOf(delta, 'stop_details'), 'explanation'))
      }
      case 'message_stop':
        return [...finish('end_turn'), ...complete()]
      case 'error': {
        const error = memberOf(event, 'error')
        failure = {
          type: textOf(error, 'type') ?? 'api_error',
          message: textOf(error, 'message') ?? '',
          isUnreadable: false,
        }
        return []
      }
      default:
        return []
    }
  }

  return {
    push({ data }) {
      if (data === undefined || isComplete || failure !== undefined) return []
      const event = readEvent(data)
      if (event === undefined) {
        failure = { type: 'api_error', message: 'The upstream sent an event that is not JSON', isUnreadable: true }
        return []
      }
      return translate(event)
    },
    end: () => (hasFinished && !isComplete ? complete() : []),
    isComplete: () => isComplete,
    failure: () => failure,
    usage,
  }
}
