import type { ChatMessage, ChatPart, ChatRequest, ChatTool, ChatToolCall } from './chat-request.ts'
import { paramOf } from './fault.ts'
import { isRecord, listOf, memberOf, textOf } from './record.ts'
import type { ResponsesItem, ResponsesRequest } from './responses-request.ts'
import { UnsupportedMember } from './unsupported-member.ts'

/** Members with the same name and meaning in both protocols. */
const SHARED = [
  'metadata',
  'model',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'provider',
  'safety_identifier',
  'service_tier',
  'stream',
  'temperature',
  'top_p',
  'user',
] as const

/** Members that are translated, or that request nothing an answer would lack. */
const TAKEN = new Set<string>([
  ...SHARED,
  'input',
  'instructions',
  'max_output_tokens',
  'parallel_tool_calls',
  'reasoning',
  'store',
  'stream_options',
  'text',
  'tool_choice',
  'tools',
])

/** Values that ask for what a chat completion does anyway, by member. */
const HARMLESS: Readonly<Record<string, (value: unknown) => boolean>> = {
  background: (value) => value === false,
  context_management: (value) => Array.isArray(value) && value.length === 0,
  // A chat has no reasoning to encrypt; clients that store nothing on the server request it all the same.
  include: (value) => Array.isArray(value) && value.every((what) => what === 'reasoning.encrypted_content'),
  top_logprobs: (value) => value === 0,
  truncation: (value) => value === 'disabled',
}

function requireKnownMembers(request: ResponsesRequest): void {
  for (const [name, value] of Object.entries(request)) {
    if (value == null || TAKEN.has(name)) continue
    if (!Object.hasOwn(HARMLESS, name) || HARMLESS[name]?.(value) !== true) throw new UnsupportedMember(name)
  }
}

type Path = readonly (string | number)[]

function toPart(part: unknown, path: Path): ChatPart {
  switch (memberOf(part, 'type')) {
    case 'input_text':
    case 'output_text':
      return { type: 'text', text: textOf(part, 'text') ?? '' }
    case 'refusal':
      return { type: 'refusal', refusal: textOf(part, 'refusal') ?? '' }
    case 'input_image': {
      const url = textOf(part, 'image_url')
      if (url === undefined) throw new UnsupportedMember(paramOf(path), 'must have an image_url')
      const detail = textOf(part, 'detail')
      return { type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } }
    }
    case 'input_file': {
      if (memberOf(part, 'file_url') != null) throw new UnsupportedMember(paramOf([...path, 'file_url']))
      const file: Record<string, string> = {}
      for (const name of ['file_data', 'file_id', 'filename']) {
        const value = textOf(part, name)
        if (value !== undefined) file[name] = value
      }
      return { type: 'file', file }
    }
    default:
      throw new UnsupportedMember(paramOf(path))
  }
}

const partTypes: Readonly<Record<string, readonly string[]>> = {
  user: ['text', 'image_url', 'file'],
  assistant: ['text', 'refusal'],
  system: ['text'],
  developer: ['text'],
  tool: ['text'],
}

/** Converts a single text part to text, which upstreams without support for parts also accept. */
function toContent(content: unknown, role: ChatMessage['role'], path: Path): string | ChatPart[] {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : ''
  const parts = content.map((each, index) => {
    const part = toPart(each, [...path, index])
    if (partTypes[role]?.includes(part.type) !== true) throw new UnsupportedMember(paramOf([...path, index]))
    return part
  })
  return (parts.length === 1 ? textOf(parts[0], 'text') : undefined) ?? parts
}

function toParts(content: string | ChatPart[]): ChatPart[] {
  if (typeof content !== 'string') return content
  return content === '' ? [] : [{ type: 'text', text: content }]
}

/** Appends to a message's content. Its array of parts is not shared and grows in place: a turn may have as many items as a body. */
function addContent(message: ChatMessage, content: string | ChatPart[]): void {
  if (message.content == null) {
    message.content = content
    return
  }
  const parts = toParts(message.content)
  for (const part of toParts(content)) parts.push(part)
  message.content = parts
}

function addItem(messages: ChatMessage[], item: ResponsesItem, index: number): void {
  const path = ['input', index]
  switch (item.type ?? 'message') {
    case 'message': {
      const role = item['role']
      if (role !== 'user' && role !== 'assistant' && role !== 'system' && role !== 'developer') {
        throw new UnsupportedMember(paramOf([...path, 'role']))
      }
      const content = toContent(item['content'], role, [...path, 'content'])
      const last = messages.at(-1)
      // Chat completions APIs reject a call that is not followed by its result.
      if (role === 'assistant' && last?.tool_calls != null) addContent(last, content)
      // Most compatible upstreams do not know the developer role; for OpenAI's models both mean the same.
      else messages.push({ role: role === 'developer' ? 'system' : role, content })
      return
    }
    case 'function_call': {
      const call: ChatToolCall = {
        id: textOf(item, 'call_id') ?? '',
        type: 'function',
        function: { name: textOf(item, 'name') ?? '', arguments: textOf(item, 'arguments') ?? '' },
      }
      // A chat holds the text and all calls of one turn in one message.
      const last = messages.at(-1)
      if (last?.role === 'assistant') (last.tool_calls ??= []).push(call)
      else messages.push({ role: 'assistant', content: null, tool_calls: [call] })
      return
    }
    case 'function_call_output': {
      const callId = textOf(item, 'call_id')
      if (callId === undefined) throw new UnsupportedMember(paramOf([...path, 'call_id']), 'must be a string')
      messages.push({
        role: 'tool',
        tool_call_id: callId,
        content: toContent(item['output'], 'tool', [...path, 'output']),
      })
      return
    }
    // Reasoning is readable only by the model that produced it.
    case 'reasoning':
      return
    default:
      throw new UnsupportedMember(paramOf(path))
  }
}

function toMessages(request: ResponsesRequest): ChatMessage[] {
  const messages: ChatMessage[] = []
  if (request.instructions != null) messages.push({ role: 'system', content: request.instructions })
  if (typeof request.input === 'string') messages.push({ role: 'user', content: request.input })
  else for (const [index, item] of (request.input ?? []).entries()) addItem(messages, item, index)
  return messages
}

function toTool(tool: { type: string; [member: string]: unknown }, index: number): ChatTool {
  const name = textOf(tool, 'name')
  if (tool.type !== 'function' || name === undefined) throw new UnsupportedMember(paramOf(['tools', index]))
  for (const member of ['async', 'defer_loading', 'output_schema']) {
    if (tool[member] != null && tool[member] !== false) throw new UnsupportedMember(paramOf(['tools', index, member]))
  }
  const description = textOf(tool, 'description')
  const parameters = tool['parameters']
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      ...(isRecord(parameters) && { parameters }),
      ...(typeof tool['strict'] === 'boolean' && { strict: tool['strict'] }),
    },
  }
}

function toNamedFunction(value: unknown): { type: 'function'; function: { name: string } } {
  const name = textOf(value, 'name')
  if (memberOf(value, 'type') !== 'function' || name === undefined) throw new UnsupportedMember('tool_choice')
  return { type: 'function', function: { name } }
}

function toToolChoice(choice: NonNullable<ResponsesRequest['tool_choice']>): ChatRequest['tool_choice'] {
  if (choice === 'auto' || choice === 'none' || choice === 'required') return choice
  if (memberOf(choice, 'type') !== 'allowed_tools') return toNamedFunction(choice)
  const tools = listOf(choice, 'tools').map(toNamedFunction)
  return { type: 'allowed_tools', allowed_tools: { mode: memberOf(choice, 'mode'), tools } }
}

/**
 * Translates the tools, and the members that say how to call them: chat completions APIs reject those without tools. A choice
 * that requires a call cannot be met without tools, and is rejected here.
 */
function toToolMembers(request: ResponsesRequest): Pick<ChatRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'> {
  const tools = (request.tools ?? []).map(toTool)
  const choice = request.tool_choice == null ? undefined : toToolChoice(request.tool_choice)
  const isParallel = request.parallel_tool_calls
  if (tools.length === 0) {
    if (choice == null || choice === 'auto' || choice === 'none') return {}
    throw new UnsupportedMember('tool_choice', 'asks for a call, but the request has no tools')
  }
  return {
    tools,
    ...(choice !== undefined && { tool_choice: choice }),
    ...(isParallel != null && { parallel_tool_calls: isParallel }),
  }
}

function toResponseFormat(text: ResponsesRequest['text']): ChatRequest['response_format'] {
  const format = text?.format
  switch (format?.type) {
    case undefined:
    case 'text':
      return undefined
    case 'json_object':
      return { type: 'json_object' }
    case 'json_schema': {
      const schema: Record<string, unknown> = {}
      for (const name of ['name', 'description', 'schema', 'strict']) {
        if (format[name] != null) schema[name] = format[name]
      }
      return { type: 'json_schema', json_schema: schema }
    }
    default:
      throw new UnsupportedMember('text.format')
  }
}

/** Ignores a requested summary, as the API allows: providing summaries is up to the upstream. */
function toReasoningEffort(reasoning: ResponsesRequest['reasoning']): string | undefined {
  if (memberOf(reasoning, 'mode') != null && memberOf(reasoning, 'mode') !== 'standard') {
    throw new UnsupportedMember('reasoning.mode')
  }
  const context = memberOf(reasoning, 'context')
  if (context != null && context !== 'auto') throw new UnsupportedMember('reasoning.context')
  return reasoning?.effort ?? undefined
}

/**
 * Translates a request for a response into one for a chat completion, for upstreams without `/responses`. Storing, continuing and
 * the upstream's own tools have no counterpart. `store` is ignored: the response says that it is not stored. The caller has to
 * request the usage of a stream.
 *
 * Calls, and what the assistant says before their results, become one message. Developer instructions become system messages.
 *
 * request: checked by `checkResponsesRequest`.
 * Throws UnsupportedMember for anything that a chat cannot express, including unknown members of the request itself: such a member
 * might mean something in a chat, and bypass a budget that was computed without it. Unknown members of items and parts are left out.
 */
export function toChatRequest(request: ResponsesRequest): ChatRequest {
  requireKnownMembers(request)
  const shared = Object.fromEntries(SHARED.filter((name) => request[name] != null).map((name) => [name, request[name]]))
  const messages = toMessages(request)
  if (messages.length === 0) throw new UnsupportedMember('input', 'must hold a message')
  const format = toResponseFormat(request.text)
  const effort = toReasoningEffort(request.reasoning)
  const verbosity = memberOf(request.text, 'verbosity')
  return {
    ...shared,
    model: request.model,
    messages,
    ...(request.max_output_tokens != null && { max_completion_tokens: request.max_output_tokens }),
    ...toToolMembers(request),
    ...(format !== undefined && { response_format: format }),
    ...(effort !== undefined && { reasoning_effort: effort }),
    ...(verbosity != null && { verbosity }),
  }
}
