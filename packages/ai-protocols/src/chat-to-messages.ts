import type { ChatMessage, ChatPart, ChatRequest, ChatTool } from './chat-request.ts'
import { paramOf } from './fault.ts'
import { isRecord, memberOf, textOf } from './record.ts'
import { UnsupportedMember } from './unsupported-member.ts'

type ImageType = 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'
interface TextBlock {
  type: 'text'
  text: string
}
interface ImageBlock {
  type: 'image'
  source: { type: 'base64'; media_type: ImageType; data: string } | { type: 'url'; url: string }
}
interface DocumentBlock {
  type: 'document'
  source:
    | { type: 'base64'; media_type: 'application/pdf'; data: string }
    | { type: 'text'; media_type: 'text/plain'; data: string }
  title?: string
}
interface ToolUseBlock {
  type: 'tool_use'
  id: string
  name: string
  input: Record<string, unknown>
}
interface ToolResultBlock {
  type: 'tool_result'
  tool_use_id: string
  content?: TextBlock[]
}
type Block = TextBlock | ImageBlock | DocumentBlock | ToolUseBlock | ToolResultBlock
type ToolChoice =
  | { type: 'auto' | 'any'; disable_parallel_tool_use?: boolean }
  | { type: 'tool'; name: string; disable_parallel_tool_use?: boolean }
  | { type: 'none' }

/** The body of Anthropic's `POST /v1/messages`, as far as a chat completion can ask for it. */
export interface MessagesRequest {
  model: string
  max_tokens: number
  messages: { role: 'user' | 'assistant'; content: Block[] }[]
  system?: TextBlock[]
  stream?: true
  stop_sequences?: string[]
  temperature?: number
  top_p?: number
  tools?: {
    name: string
    description?: string
    input_schema: { type: 'object'; [member: string]: unknown }
    strict?: true
  }[]
  tool_choice?: ToolChoice
  thinking?: { type: 'disabled' }
  output_config?: { effort?: Effort; format?: { type: 'json_schema'; schema: Record<string, unknown> } }
  metadata?: { user_id: string }
  service_tier?: 'standard_only'
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const
type Effort = (typeof EFFORTS)[number]

/** Members that are translated, read by the gateway itself, or hints that change no answer. */
const TAKEN = new Set([
  'max_completion_tokens',
  'max_tokens',
  'messages',
  'metadata',
  'model',
  'parallel_tool_calls',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'provider',
  'reasoning_effort',
  'response_format',
  'safety_identifier',
  'stop',
  'stream',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_p',
  'user',
])

/** Values by which a member says what Anthropic does anyway. */
const HARMLESS: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: (value) => value === 1,
  logprobs: (value) => value === false,
  top_logprobs: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  logit_bias: (value) => isRecord(value) && Object.keys(value).length === 0,
  modalities: (value) => Array.isArray(value) && value.every((modality) => modality === 'text'),
  service_tier: (value) => value === 'auto' || value === 'default',
  store: (value) => value === false,
  functions: (value) => Array.isArray(value) && value.length === 0,
  verbosity: (value) => value === 'medium',
}

function requireKnownMembers(chat: ChatRequest): void {
  for (const [name, value] of Object.entries(chat)) {
    if (value == null || TAKEN.has(name)) continue
    if (!Object.hasOwn(HARMLESS, name) || HARMLESS[name]?.(value) !== true) throw new UnsupportedMember(name)
  }
}

const IMAGE_TYPES: readonly string[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'] satisfies ImageType[]
const isImageType = (type: string): type is ImageType => IMAGE_TYPES.includes(type)

/** Reads a base64 `data:` URL without copying its data twice; undefined for any other. */
function readDataUrl(url: string): { type: string; data: string } | undefined {
  if (url.slice(0, 5).toLowerCase() !== 'data:') return undefined
  const comma = url.indexOf(',')
  const [type = '', ...parameters] = url.slice(5, Math.max(comma, 5)).toLowerCase().split(';')
  return comma !== -1 && parameters.at(-1) === 'base64' ? { type, data: url.slice(comma + 1) } : undefined
}

type Path = readonly (string | number)[]

function toImageBlock(part: ChatPart, path: Path): ImageBlock {
  const url = textOf(part['image_url'], 'url') ?? ''
  const encoded = readDataUrl(url)
  if (encoded !== undefined && isImageType(encoded.type)) {
    return { type: 'image', source: { type: 'base64', media_type: encoded.type, data: encoded.data } }
  }
  if (/^https:\/\//i.test(url)) return { type: 'image', source: { type: 'url', url } }
  throw new UnsupportedMember(
    paramOf([...path, 'image_url', 'url']),
    'must be an https address, or a JPEG, PNG, GIF or WebP picture as a base64 data: URL',
  )
}

function toDocumentBlock(part: ChatPart, path: Path): DocumentBlock {
  const file = part['file']
  const title = textOf(file, 'filename')
  const data = textOf(file, 'file_data') ?? ''
  // Clients also send bare base64, whose type only the name tells.
  const encoded =
    readDataUrl(data) ??
    (data !== '' && title?.toLowerCase().endsWith('.pdf') === true ? { type: 'application/pdf', data } : undefined)
  const named = title === undefined || title === '' ? {} : { title }
  if (encoded?.type === 'application/pdf') {
    return {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: encoded.data },
      ...named,
    }
  }
  if (encoded?.type === 'text/plain') {
    const text = Buffer.from(encoded.data, 'base64').toString('utf8')
    return { type: 'document', source: { type: 'text', media_type: 'text/plain', data: text }, ...named }
  }
  throw new UnsupportedMember(
    paramOf([...path, 'file']),
    'must have file_data: a PDF or plain text as a base64 data: URL',
  )
}

/** Anthropic refuses text blocks that are empty. */
function toTextBlocks(text: unknown): TextBlock[] {
  return typeof text === 'string' && text !== '' ? [{ type: 'text', text }] : []
}

function toBlocks(content: ChatMessage['content'], path: Path): (TextBlock | ImageBlock | DocumentBlock)[] {
  if (!Array.isArray(content)) return toTextBlocks(content)
  return content.flatMap((part, index): (TextBlock | ImageBlock | DocumentBlock)[] => {
    const partPath = [...path, 'content', index]
    switch (part.type) {
      case 'text':
        return toTextBlocks(part['text'])
      case 'refusal':
        return toTextBlocks(part['refusal'])
      case 'image_url':
        return [toImageBlock(part, partPath)]
      case 'file':
        return [toDocumentBlock(part, partPath)]
      default:
        throw new UnsupportedMember(paramOf(partPath))
    }
  })
}

function onlyText(content: ChatMessage['content'], path: Path): TextBlock[] {
  if (!Array.isArray(content)) return toTextBlocks(content)
  return content.flatMap((part, index) => {
    if (part.type === 'text') return toTextBlocks(part['text'])
    if (part.type === 'refusal') return toTextBlocks(part['refusal'])
    throw new UnsupportedMember(paramOf([...path, 'content', index]), 'must be text')
  })
}

function readArguments(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function toToolUses(message: ChatMessage, path: Path): ToolUseBlock[] {
  return (message.tool_calls ?? []).map((call, index) => {
    const callPath = [...path, 'tool_calls', index]
    if (call.type !== 'function' || call.function === undefined) throw new UnsupportedMember(paramOf(callPath))
    const input = readArguments(call.function.arguments)
    if (!isRecord(input)) {
      throw new UnsupportedMember(paramOf([...callPath, 'function', 'arguments']), 'must be a JSON object')
    }
    return { type: 'tool_use', id: call.id, name: call.function.name, input }
  })
}

function toMessageBlocks(message: ChatMessage, path: Path): Block[] {
  switch (message.role) {
    case 'user':
      return toBlocks(message.content, path)
    case 'assistant': {
      if (message['function_call'] != null) throw new UnsupportedMember(paramOf([...path, 'function_call']))
      if (message['audio'] != null) throw new UnsupportedMember(paramOf([...path, 'audio']))
      const text = onlyText(message.content, path)
      const refusal = text.length === 0 ? toTextBlocks(message['refusal']) : []
      return [...text, ...refusal, ...toToolUses(message, path)]
    }
    case 'tool': {
      const content = onlyText(message.content, path)
      return [
        {
          type: 'tool_result',
          tool_use_id: message.tool_call_id ?? '',
          ...(content.length > 0 && { content }),
        },
      ]
    }
    default:
      throw new UnsupportedMember(paramOf([...path, 'role']))
  }
}

function toConversation(messages: readonly ChatMessage[]): Pick<MessagesRequest, 'messages' | 'system'> {
  const system: TextBlock[] = []
  const turns: MessagesRequest['messages'] = []
  for (const [index, message] of messages.entries()) {
    const path = ['messages', index]
    if (message.role === 'system' || message.role === 'developer') {
      system.push(...onlyText(message.content, path))
      continue
    }
    const blocks = toMessageBlocks(message, path)
    if (blocks.length === 0) continue
    const role = message.role === 'assistant' ? 'assistant' : 'user'
    const last = turns.at(-1)
    if (last?.role === role) for (const block of blocks) last.content.push(block)
    else turns.push({ role, content: blocks })
  }
  return { messages: turns, ...(system.length > 0 && { system }) }
}

function toTools(tools: readonly ChatTool[]): NonNullable<MessagesRequest['tools']> {
  return tools.map((tool, index) => {
    if (tool.type !== 'function' || tool.function === undefined) {
      throw new UnsupportedMember(paramOf(['tools', index]))
    }
    const { name, description, parameters, strict } = tool.function
    return {
      name,
      ...(description != null && { description }),
      input_schema: { ...(parameters ?? { properties: {} }), type: 'object' },
      ...(strict === true && { strict }),
    }
  })
}

function toToolChoice(chat: ChatRequest): ToolChoice | undefined {
  const serial = chat.parallel_tool_calls === false && { disable_parallel_tool_use: true }
  const choice = chat.tool_choice
  if (choice == null) return serial === false ? undefined : { type: 'auto', ...serial }
  if (choice === 'none') return { type: 'none' }
  if (choice === 'auto') return { type: 'auto', ...serial }
  if (choice === 'required') return { type: 'any', ...serial }
  const name = textOf(memberOf(choice, 'function'), 'name')
  if (memberOf(choice, 'type') !== 'function' || name === undefined) throw new UnsupportedMember('tool_choice')
  return { type: 'tool', name, ...serial }
}

function toOutputConfig(chat: ChatRequest): MessagesRequest['output_config'] {
  const effort = EFFORTS.find((name) => name === chat.reasoning_effort)
  if (effort === undefined && chat.reasoning_effort != null && chat.reasoning_effort !== 'none') {
    throw new UnsupportedMember('reasoning_effort')
  }
  const format = chat.response_format
  if (format == null || format.type === 'text') return effort && { effort }
  const schema = memberOf(format['json_schema'], 'schema')
  if (format.type !== 'json_schema' || !isRecord(schema)) throw new UnsupportedMember('response_format')
  return { ...(effort !== undefined && { effort }), format: { type: 'json_schema', schema } }
}

/**
 * Says a chat completion in Anthropic's Messages API. System and developer messages become the system prompt, in their order;
 * consecutive messages of one role become one, as do results of tools with the user's words after them.
 *
 * `reasoning_effort` becomes `output_config.effort`, and `none` turns thinking off; whether a model thinks without being told is
 * its own default. Earlier `reasoning_content` is not sent: thinking comes back only with its signature, which a chat does not carry.
 *
 * chat: checked by `checkChatRequest`. model: the upstream's name. maxTokensDefault: the cap where the chat has none.
 * Throws UnsupportedMember for what the Messages API cannot express, members that nobody knows included.
 */
export function toMessagesRequest(
  chat: ChatRequest,
  { model, maxTokensDefault }: { model: string; maxTokensDefault: number },
): MessagesRequest {
  requireKnownMembers(chat)
  // OpenAI's scale ends at 2 and Anthropic's at 1; a value above has no counterpart.
  if (chat.temperature != null && chat.temperature > 1) {
    throw new UnsupportedMember('temperature', 'must be at most 1 for this model')
  }
  const stop = typeof chat.stop === 'string' ? [chat.stop] : (chat.stop ?? [])
  const tools = toTools(chat.tools ?? [])
  const toolChoice = toToolChoice(chat)
  const outputConfig = toOutputConfig(chat)
  const userId = chat.safety_identifier ?? chat.user
  return {
    model,
    max_tokens: chat.max_completion_tokens ?? chat.max_tokens ?? maxTokensDefault,
    ...toConversation(chat.messages),
    ...(chat.stream === true && { stream: true }),
    ...(stop.length > 0 && { stop_sequences: stop }),
    ...(chat.temperature != null && { temperature: chat.temperature }),
    ...(chat.top_p != null && { top_p: chat.top_p }),
    ...(tools.length > 0 && { tools }),
    // Anthropic takes a choice only beside tools.
    ...(tools.length > 0 && toolChoice !== undefined && { tool_choice: toolChoice }),
    ...(chat.reasoning_effort === 'none' && { thinking: { type: 'disabled' } }),
    ...(outputConfig !== undefined && { output_config: outputConfig }),
    ...(userId != null && { metadata: { user_id: userId } }),
    ...(chat['service_tier'] === 'default' && { service_tier: 'standard_only' }),
  }
}
