import type { ChatMessage, ChatPart, ChatRequest, ChatTool } from './chat-request.ts'
import { paramOf } from './fault.ts'
import { excessOf, jsonMax, measureJson } from './measure-json.ts'
import { isRecord, listOf, memberOf, textOf } from './record.ts'
import { UnsupportedMember } from './unsupported-member.ts'

type ImageType = 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'
/** Requests caching of the prompt up to and including a block or tool. */
interface CacheControl {
  type: 'ephemeral'
  ttl?: '5m'
}
interface Cacheable {
  cache_control?: CacheControl
}
interface TextBlock extends Cacheable {
  type: 'text'
  text: string
}
interface ImageBlock extends Cacheable {
  type: 'image'
  source: { type: 'base64'; media_type: ImageType; data: string } | { type: 'url'; url: string }
}
interface DocumentBlock extends Cacheable {
  type: 'document'
  source:
    | { type: 'base64'; media_type: 'application/pdf'; data: string }
    | { type: 'text'; media_type: 'text/plain'; data: string }
    | { type: 'url'; url: string }
  title?: string
}
type ContentBlock = TextBlock | ImageBlock | DocumentBlock
interface ToolUseBlock extends Cacheable {
  type: 'tool_use'
  id: string
  name: string
  input: Record<string, unknown>
}
interface ToolResultBlock extends Cacheable {
  type: 'tool_result'
  tool_use_id: string
  content?: ContentBlock[]
}
type Block = ContentBlock | ToolUseBlock | ToolResultBlock
type ToolChoice =
  | { type: 'auto' | 'any'; disable_parallel_tool_use?: boolean }
  | { type: 'tool'; name: string; disable_parallel_tool_use?: boolean }
  | { type: 'none' }

/** The body of Anthropic's `POST /v1/messages`, as far as a chat completion can express it. */
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
    cache_control?: CacheControl
  }[]
  tool_choice?: ToolChoice
  thinking?: { type: 'disabled' }
  output_config?: { effort?: Effort; format?: { type: 'json_schema'; schema: Record<string, unknown> } }
  metadata?: { user_id: string }
  service_tier?: 'standard_only'
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const
type Effort = (typeof EFFORTS)[number]

/** Members that are translated, read by the gateway itself, or hints without effect on the answer. */
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

/** Values that ask for what Anthropic does anyway, by member. */
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

/** By the types in `data:` URLs. Many clients write image/jpg, which is not registered. */
const imageTypes: Readonly<Record<string, ImageType>> = {
  'image/jpeg': 'image/jpeg',
  'image/jpg': 'image/jpeg',
  'image/png': 'image/png',
  'image/gif': 'image/gif',
  'image/webp': 'image/webp',
}

const SCHEME = /^[a-z][a-z0-9+.-]*:/i
const HTTPS = /^https:\/\//i

/** Maximum length of a `data:` URL up to its comma. */
const DATA_URL_HEAD_MAX = 1_024

/** Reads a base64 `data:` URL without copying its data twice; returns undefined for any other URL. */
function readDataUrl(url: string): { type: string; data: string } | undefined {
  if (url.slice(0, 5).toLowerCase() !== 'data:') return undefined
  // A type and its parameters are short; splitting a URL of many semicolons would make as many strings.
  const comma = url.slice(0, DATA_URL_HEAD_MAX).indexOf(',')
  const [type = '', ...parameters] = url.slice(5, Math.max(comma, 5)).toLowerCase().split(';')
  return comma !== -1 && parameters.at(-1) === 'base64' ? { type, data: url.slice(comma + 1) } : undefined
}

type Path = readonly (string | number)[]

/**
 * Reads `cache_control`, which clients of Anthropic's models add to parts, messages and tools of a chat. A one-hour cache is
 * rejected: it costs more to write than a five-minute one, and usage does not distinguish the two.
 */
function toCacheControl(value: unknown, path: Path): Cacheable {
  if (value == null) return {}
  const ttl = memberOf(value, 'ttl')
  if (memberOf(value, 'type') !== 'ephemeral') throw new UnsupportedMember(paramOf([...path, 'cache_control']))
  if (ttl == null) return { cache_control: { type: 'ephemeral' } }
  if (ttl !== '5m') throw new UnsupportedMember(paramOf([...path, 'cache_control', 'ttl']))
  return { cache_control: { type: 'ephemeral', ttl } }
}

function toImageBlock(part: ChatPart, path: Path): ImageBlock {
  const url = textOf(part['image_url'], 'url') ?? ''
  const encoded = readDataUrl(url)
  const imageType = encoded && Object.hasOwn(imageTypes, encoded.type) ? imageTypes[encoded.type] : undefined
  if (encoded !== undefined && imageType !== undefined) {
    return { type: 'image', source: { type: 'base64', media_type: imageType, data: encoded.data } }
  }
  if (HTTPS.test(url)) return { type: 'image', source: { type: 'url', url } }
  throw new UnsupportedMember(
    paramOf([...path, 'image_url', 'url']),
    'must be an https address, or a JPEG, PNG, GIF or WebP picture as a base64 data: URL',
  )
}

function toDocumentBlock(part: ChatPart, path: Path): DocumentBlock {
  const file = part['file']
  const title = textOf(file, 'filename')
  const data = textOf(file, 'file_data') ?? ''
  // Clients also send bare base64, whose type only the file name reveals. Text with a scheme is not base64.
  const isBare = data !== '' && !SCHEME.test(data) && title?.toLowerCase().endsWith('.pdf') === true
  const encoded = readDataUrl(data) ?? (isBare ? { type: 'application/pdf', data } : undefined)
  const named = title === undefined || title === '' ? {} : { title }
  if (HTTPS.test(data)) return { type: 'document', source: { type: 'url', url: data }, ...named }
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
    'must have file_data: an https address, or a PDF or plain text as a base64 data: URL',
  )
}

/** Anthropic rejects text blocks that are empty or only whitespace, cached or not. */
function toTextBlocks(text: unknown): TextBlock[] {
  return typeof text === 'string' && /\S/.test(text) ? [{ type: 'text', text }] : []
}

/** Converts a text or refusal part; returns undefined for other parts. */
function toPartText(part: ChatPart, path: Path): TextBlock[] | undefined {
  if (part.type !== 'text' && part.type !== 'refusal') return undefined
  const cached = toCacheControl(part['cache_control'], path)
  return toTextBlocks(part[part.type]).map((block) => ({ ...block, ...cached }))
}

function toBlocks(content: ChatMessage['content'], path: Path): ContentBlock[] {
  if (!Array.isArray(content)) return toTextBlocks(content)
  return content.flatMap((part, index): ContentBlock[] => {
    const partPath = [...path, 'content', index]
    const cached = toCacheControl(part['cache_control'], partPath)
    switch (part.type) {
      case 'image_url':
        return [{ ...toImageBlock(part, partPath), ...cached }]
      case 'file':
        return [{ ...toDocumentBlock(part, partPath), ...cached }]
      default: {
        const text = toPartText(part, partPath)
        if (text === undefined) throw new UnsupportedMember(paramOf(partPath))
        return text
      }
    }
  })
}

function onlyText(content: ChatMessage['content'], path: Path): TextBlock[] {
  if (!Array.isArray(content)) return toTextBlocks(content)
  return content.flatMap((part, index) => {
    const partPath = [...path, 'content', index]
    const text = toPartText(part, partPath)
    if (text === undefined) throw new UnsupportedMember(paramOf(partPath), 'must be text')
    return text
  })
}

/** Parses the arguments of a tool call, which are text in a chat. Returns undefined if they are not valid JSON. */
type ReadArguments = (text: string) => unknown

const ARGUMENTS_RULE = `must be a JSON object, nested at most ${jsonMax.depth} deep`

/** To the checks of a body, arguments are only text: their contents are measured here before parsing, summed over all calls. */
function createArgumentsReader(): ReadArguments {
  const sum = { depth: 0, elements: 0, members: 0, membersOfOne: 0 }
  return (text) => {
    if (text.trim() === '') return {}
    const { depth, elements, members, membersOfOne } = measureJson(Buffer.from(text))
    sum.elements += elements
    sum.members += members
    if (excessOf({ ...sum, membersOfOne }))
      throw new UnsupportedMember('messages', 'must have fewer elements in the arguments of calls')
    if (depth > jsonMax.depth) return undefined
    try {
      return JSON.parse(text)
    } catch {
      return undefined
    }
  }
}

const TOOL_USE_ID = /^[a-zA-Z0-9_-]+$/

/** Encodes ids that Anthropic rejects, for example Kimi's `functions.f:0`, in its alphabet. Distinct ids stay distinct. */
function toToolUseId(id: string): string {
  return TOOL_USE_ID.test(id) ? id : `call_${Buffer.from(id).toString('base64url')}`
}

function toToolUses(message: ChatMessage, path: Path, readArguments: ReadArguments): ToolUseBlock[] {
  return (message.tool_calls ?? []).map((call, index) => {
    const callPath = [...path, 'tool_calls', index]
    if (call.type !== 'function' || call.function === undefined) throw new UnsupportedMember(paramOf(callPath))
    const input = readArguments(call.function.arguments)
    if (!isRecord(input)) {
      throw new UnsupportedMember(paramOf([...callPath, 'function', 'arguments']), ARGUMENTS_RULE)
    }
    return { type: 'tool_use', id: toToolUseId(call.id), name: call.function.name, input }
  })
}

/**
 * Images and documents in a result go beyond OpenAI's types; clients of Anthropic's models send them. Only whole results can be
 * cached, not blocks inside them: the last part with `cache_control` determines it for the whole result.
 */
function toToolResult(message: ChatMessage, path: Path): ToolResultBlock {
  const content = toBlocks(message.content, path)
  const cached = content.findLast((block) => block.cache_control !== undefined)?.cache_control
  for (const block of content) delete block.cache_control
  return {
    type: 'tool_result',
    tool_use_id: toToolUseId(message.tool_call_id ?? ''),
    ...(content.length > 0 && { content }),
    ...(cached !== undefined && { cache_control: cached }),
  }
}

function toMessageBlocks(message: ChatMessage, path: Path, readArguments: ReadArguments): Block[] {
  switch (message.role) {
    case 'user':
      return toBlocks(message.content, path)
    case 'assistant': {
      if (message['function_call'] != null) throw new UnsupportedMember(paramOf([...path, 'function_call']))
      if (message['audio'] != null) throw new UnsupportedMember(paramOf([...path, 'audio']))
      const text = onlyText(message.content, path)
      return [...text, ...toTextBlocks(message['refusal']), ...toToolUses(message, path, readArguments)]
    }
    case 'tool':
      return [toToolResult(message, path)]
    default:
      throw new UnsupportedMember(paramOf([...path, 'role']))
  }
}

/** Applies a message's `cache_control` to its last block. */
function addCacheControl(blocks: Block[], message: ChatMessage, path: Path): void {
  const last = blocks.at(-1)
  const cached = toCacheControl(message['cache_control'], path)
  if (last !== undefined) Object.assign(last, cached)
}

function toConversation(messages: readonly ChatMessage[]): Pick<MessagesRequest, 'messages' | 'system'> {
  const system: TextBlock[] = []
  const turns: MessagesRequest['messages'] = []
  const readArguments = createArgumentsReader()
  for (const [index, message] of messages.entries()) {
    const path = ['messages', index]
    if (message.role === 'system' || message.role === 'developer') {
      const text = onlyText(message.content, path)
      addCacheControl(text, message, path)
      // Not spread into one call: a message may have more parts than a call accepts arguments.
      for (const block of text) system.push(block)
      continue
    }
    const blocks = toMessageBlocks(message, path, readArguments)
    addCacheControl(blocks, message, path)
    if (blocks.length === 0) continue
    const role = message.role === 'assistant' ? 'assistant' : 'user'
    const last = turns.at(-1)
    if (last?.role === role) for (const block of blocks) last.content.push(block)
    else turns.push({ role, content: blocks })
  }
  if (turns.length === 0)
    throw new UnsupportedMember('messages', 'must hold a message with content besides instructions')
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
      ...toCacheControl(tool['cache_control'] ?? memberOf(tool.function, 'cache_control'), ['tools', index]),
    }
  })
}

function toNamedFunction(value: unknown): string {
  const name = textOf(memberOf(value, 'function'), 'name')
  if (memberOf(value, 'type') !== 'function' || name === undefined) throw new UnsupportedMember('tool_choice')
  return name
}

function toToolChoice(chat: ChatRequest): ToolChoice | undefined {
  const serial = chat.parallel_tool_calls === false && { disable_parallel_tool_use: true }
  const choice = chat.tool_choice
  if (choice == null) return serial === false ? undefined : { type: 'auto', ...serial }
  const isAmongSome = memberOf(choice, 'type') === 'allowed_tools'
  switch (isAmongSome ? memberOf(memberOf(choice, 'allowed_tools'), 'mode') : choice) {
    case 'auto':
      return { type: 'auto', ...serial }
    case 'required':
      return { type: 'any', ...serial }
    case 'none':
      return { type: 'none' }
    default:
      return { type: 'tool', name: toNamedFunction(choice), ...serial }
  }
}

/** Anthropic cannot restrict the choice to a subset of tools: the other tools are left out instead. */
function toOfferedTools(chat: ChatRequest): NonNullable<MessagesRequest['tools']> {
  const tools = toTools(chat.tools ?? [])
  if (memberOf(chat.tool_choice, 'type') !== 'allowed_tools') return tools
  const allowed = new Set(listOf(memberOf(chat.tool_choice, 'allowed_tools'), 'tools').map(toNamedFunction))
  return tools.filter(({ name }) => allowed.has(name))
}

/** Anthropic accepts a tool choice only together with tools. A choice that requires a call cannot be met without them. */
function toToolMembers(chat: ChatRequest): Pick<MessagesRequest, 'tools' | 'tool_choice'> {
  const tools = toOfferedTools(chat)
  const choice = toToolChoice(chat)
  if (tools.length > 0) return { tools, ...(choice !== undefined && { tool_choice: choice }) }
  if (choice?.type === 'any' || choice?.type === 'tool') {
    throw new UnsupportedMember('tool_choice', 'must not ask for a call where the request has no tools')
  }
  return {}
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
 * Translates a chat completion into a request of Anthropic's Messages API. System and developer messages become the system
 * prompt, in order; consecutive messages of one role are merged, as are tool results with the user messages after them.
 *
 * `reasoning_effort` becomes `output_config.effort`, and `none` turns thinking off; by default the model decides whether it thinks.
 * Earlier `reasoning_content` is not sent: Anthropic requires thinking to be signed, and a chat does not carry the signature.
 *
 * Whitespace-only text, which Anthropic rejects, is left out, and call ids that it rejects are replaced. If the choice is
 * restricted to some tools, only these are sent.
 *
 * `cache_control` of parts, messages and tools is passed on, with a `ttl` of at most "5m". `name` of a message and `detail` of an
 * image have no counterpart and are left out, as are unknown members of messages, parts and tools: clients send answers back with
 * members that only make sense in answers.
 *
 * chat: checked by `checkChatRequest`. model: the upstream's name. maxTokensDefault: the cap if the chat has none.
 * Throws UnsupportedMember for anything that the Messages API cannot express, including unknown members of the request itself.
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
    ...toToolMembers(chat),
    ...(chat.reasoning_effort === 'none' && { thinking: { type: 'disabled' } }),
    ...(outputConfig !== undefined && { output_config: outputConfig }),
    ...(userId != null && { metadata: { user_id: userId } }),
    ...(chat['service_tier'] === 'default' && { service_tier: 'standard_only' }),
  }
}
