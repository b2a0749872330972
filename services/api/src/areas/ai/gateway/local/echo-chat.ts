import type { ChatMessage, ChatRequest } from '@platform/ai-protocols/chat-request'
import { memberOf, textOf } from '@platform/ai-protocols/record'
import { requestTextBytes } from '@platform/ai-protocols/text-bytes'
import { EVENT_STREAM, wordsOf, writeEvents } from './event-stream.ts'
import type { LocalAnswer, LocalCall } from './local-answer.ts'
import { instanceOfSchema } from './schema-instance.ts'
import { cutToTokens, tokensOfBytes } from './token-estimate.ts'

/** Tokens of an answer if its request sets no cap, however long the question. */
const OUTPUT_TOKENS_DEFAULT = 4_096
/** For all choices of an answer together. */
const OUTPUT_TOKENS_MAX = 100_000

const INTRODUCTION = 'local/echo is no language model; it repeats: '

/** Returns the text of a message; images, audio and files have none. */
function textOfMessage(message: ChatMessage | undefined): string {
  const content = message?.content ?? ''
  if (typeof content === 'string') return content
  return content.map((part) => textOf(part, 'text') ?? '').join('')
}

/** Returns the tool that a request requires: the named one, else the first. */
function requiredTool({ tools, tool_choice: choice }: ChatRequest) {
  const functions = (tools ?? []).flatMap((tool) => (tool.function === undefined ? [] : [tool.function]))
  if (choice === 'required') return functions[0]
  const name = textOf(memberOf(choice, 'function'), 'name')
  return functions.find((each) => each.name === name)
}

/** Returns the text up to the first stop sequence. */
function cutAtStop(text: string, stop: ChatRequest['stop']): string {
  const sequences = (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((sequence) => sequence !== '')
  const ends = sequences.map((sequence) => text.indexOf(sequence)).filter((end) => end >= 0)
  return ends.length === 0 ? text : text.slice(0, Math.min(...ends))
}

interface Completion {
  /** The function to call; undefined: `text` is the answer itself. */
  tool: string | undefined
  text: string
  finishReason: 'stop' | 'length' | 'tool_calls'
}

function wholeText(request: ChatRequest, echo: string): string {
  switch (request.response_format?.type) {
    case 'json_schema':
      return JSON.stringify(instanceOfSchema(memberOf(request.response_format['json_schema'], 'schema') ?? {}))
    case 'json_object':
      return JSON.stringify({ echo })
    default:
      return cutAtStop(echo, request.stop)
  }
}

function complete(request: ChatRequest): Completion {
  const echo = INTRODUCTION + textOfMessage(request.messages.findLast(({ role }) => role === 'user'))
  const tool = requiredTool(request)
  const whole = tool
    ? JSON.stringify(instanceOfSchema(tool.parameters ?? { type: 'object' }))
    : wholeText(request, echo)
  const cap = request.max_completion_tokens ?? request.max_tokens ?? OUTPUT_TOKENS_DEFAULT
  const text = cutToTokens(whole, Math.min(cap, Math.floor(OUTPUT_TOKENS_MAX / (request.n ?? 1))))
  const finishReason = text.length < whole.length ? 'length' : tool ? 'tool_calls' : 'stop'
  return { tool: tool?.name, text, finishReason }
}

/** Common first members of all documents and chunks of one answer. */
const headOf = ({ model }: ChatRequest, { requestId, now }: LocalCall) => ({
  id: `chatcmpl-${requestId}`,
  created: Math.floor(now.getTime() / 1_000),
  model,
})

const toolCallId = (requestId: string, choice: number): string => `call_${requestId}_${choice}`

function* chunksOf(request: ChatRequest, call: LocalCall, completion: Completion, usage: unknown): Generator {
  const { tool, text, finishReason } = completion
  const includesUsage = request.stream_options?.include_usage === true
  const base = { ...headOf(request, call), object: 'chat.completion.chunk' }
  const rest = includesUsage ? { usage: null } : {}
  const chunk = (index: number, delta: unknown, finish: string | null = null) => ({
    ...base,
    choices: [{ index, delta, logprobs: null, finish_reason: finish }],
    ...rest,
  })
  for (let index = 0; index < (request.n ?? 1); index += 1) {
    if (tool === undefined) yield chunk(index, { role: 'assistant', content: '', refusal: null })
    else {
      const opened = { index: 0, id: toolCallId(call.requestId, index), type: 'function' }
      yield chunk(index, {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...opened, function: { name: tool, arguments: '' } }],
      })
    }
    for (const word of wordsOf(text))
      yield chunk(
        index,
        tool === undefined ? { content: word } : { tool_calls: [{ index: 0, function: { arguments: word } }] },
      )
    yield chunk(index, {}, finishReason)
  }
  if (includesUsage) yield { ...base, choices: [], usage }
}

function messageOf({ tool, text }: Completion, requestId: string, index: number) {
  if (tool === undefined) return { role: 'assistant', content: text, refusal: null }
  const call = { id: toolCallId(requestId, index), type: 'function', function: { name: tool, arguments: text } }
  return { role: 'assistant', content: null, refusal: null, tool_calls: [call] }
}

/**
 * Answers a chat completion by repeating the text of the last user message, as a document or as a stream with a chunk per word.
 * Supports `max_tokens`, `max_completion_tokens`, `stop`, `n`, `stream_options.include_usage`, a `tool_choice` that is
 * `required` or names a function, and `response_format`, with `{ echo }` or an instance of the schema's types. Usage counts a
 * token per four bytes.
 */
export function answerChat(request: ChatRequest, call: LocalCall): LocalAnswer {
  const completion = complete(request)
  const count = request.n ?? 1
  const prompt = tokensOfBytes(requestTextBytes('chat', request))
  const output = tokensOfBytes(Buffer.byteLength(completion.text)) * count
  const usage = { prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output }
  if (request.stream === true) {
    const body = writeEvents(chunksOf(request, call, completion, usage), call.signal, 'data: [DONE]\n\n')
    return { status: 200, contentType: EVENT_STREAM, body }
  }
  const choices = Array.from({ length: count }, (_, index) => ({
    index,
    message: messageOf(completion, call.requestId, index),
    logprobs: null,
    finish_reason: completion.finishReason,
  }))
  const document = { ...headOf(request, call), object: 'chat.completion', choices, usage }
  return { status: 200, contentType: 'application/json', body: Buffer.from(JSON.stringify(document)) }
}
