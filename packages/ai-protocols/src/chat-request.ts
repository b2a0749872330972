import {
  type Check,
  type Fault,
  faultOf,
  isBoolean,
  isFilledText,
  isIntegerFrom,
  isListOf,
  isMetadata,
  isModelId,
  isNumberFrom,
  isObjectWith,
  isOneOf,
  isProviderChoice,
  isText,
  isTextOr,
  isTypedObject,
  optional,
  type ProviderChoice,
} from './fault.ts'
import { isRecord } from './record.ts'

/** A part of a message: text, image, audio, file or refusal. */
export interface ChatPart {
  type: string
  [member: string]: unknown
}

/** A tool call by the assistant. */
export interface ChatToolCall {
  id: string
  type: string
  function?: { name: string; arguments: string }
  [member: string]: unknown
}

/** A message of a chat. */
export interface ChatMessage {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | 'function'
  content?: string | ChatPart[] | null
  tool_calls?: ChatToolCall[] | null
  tool_call_id?: string
  [member: string]: unknown
}

/** A tool that a request offers. */
export interface ChatTool {
  type: string
  function?: {
    name: string
    description?: string | null
    parameters?: Record<string, unknown> | null
    strict?: unknown
  }
  [member: string]: unknown
}

/** The body of `POST /chat/completions` after `checkChatRequest`: members not listed here are unchecked. */
export interface ChatRequest {
  model: string
  messages: ChatMessage[]
  stream?: boolean | null
  stream_options?: { include_usage?: boolean | null; [member: string]: unknown } | null
  max_tokens?: number | null
  max_completion_tokens?: number | null
  n?: number | null
  temperature?: number | null
  top_p?: number | null
  frequency_penalty?: number | null
  presence_penalty?: number | null
  stop?: string | string[] | null
  tools?: ChatTool[] | null
  tool_choice?: string | { type: string; [member: string]: unknown } | null
  parallel_tool_calls?: boolean | null
  response_format?: { type: string; [member: string]: unknown } | null
  reasoning_effort?: string | null
  metadata?: Record<string, string> | null
  user?: string | null
  safety_identifier?: string | null
  provider?: ProviderChoice | null
  [member: string]: unknown
}

const isPart = isTypedObject({
  text: isObjectWith({ text: isText }),
  refusal: isObjectWith({ refusal: isText }),
  image_url: isObjectWith({ image_url: isObjectWith({ url: isFilledText }) }),
  input_audio: isObjectWith({ input_audio: isObjectWith({ data: isText, format: isText }) }),
  file: isObjectWith({
    file: isObjectWith({ file_data: optional(isText), file_id: optional(isText), filename: optional(isText) }),
  }),
})

const contentFault = faultOf('must be a string or an array of parts')
const isParts = isListOf(isPart)
const isContent = isTextOr((value) => (Array.isArray(value) ? isParts(value) : contentFault))

const isToolCall = isTypedObject({
  function: isObjectWith({ id: isText, function: isObjectWith({ name: isText, arguments: isText }) }),
  custom: isObjectWith({ id: isText, custom: isObjectWith({ name: isText, input: isText }) }),
})

const messageChecks: Readonly<Record<string, Check>> = {
  system: isObjectWith({ content: isContent }),
  developer: isObjectWith({ content: isContent }),
  user: isObjectWith({ content: isContent }),
  assistant: isObjectWith({
    content: optional(isContent),
    refusal: optional(isText),
    tool_calls: optional(isListOf(isToolCall)),
  }),
  tool: isObjectWith({ content: isContent, tool_call_id: isText }),
  function: isObjectWith({ content: optional(isText), name: isText }),
}

const isRole = isObjectWith({ role: isOneOf(...Object.keys(messageChecks)) })
const isMessage: Check = (value) =>
  isRole(value) ?? (isRecord(value) ? messageChecks[String(value['role'])]?.(value) : undefined)

const isTool = isTypedObject({
  function: isObjectWith({
    function: isObjectWith({
      name: isFilledText,
      description: optional(isText),
      parameters: optional(isObjectWith()),
    }),
  }),
})

const isRequest = isObjectWith({
  model: isModelId,
  messages: isListOf(isMessage, 1),
  stream: optional(isBoolean),
  stream_options: optional(isObjectWith({ include_usage: optional(isBoolean) })),
  max_tokens: optional(isIntegerFrom(1)),
  max_completion_tokens: optional(isIntegerFrom(1)),
  n: optional(isIntegerFrom(1, 128)),
  temperature: optional(isNumberFrom(0, 2)),
  top_p: optional(isNumberFrom(0, 1)),
  frequency_penalty: optional(isNumberFrom(-2, 2)),
  presence_penalty: optional(isNumberFrom(-2, 2)),
  stop: optional(isTextOr(isListOf(isText))),
  tools: optional(isListOf(isTool)),
  tool_choice: optional(isTextOr(isTypedObject({}))),
  parallel_tool_calls: optional(isBoolean),
  response_format: optional(
    isTypedObject({ json_schema: isObjectWith({ json_schema: isObjectWith({ schema: optional(isObjectWith()) }) }) }),
  ),
  reasoning_effort: optional(isText),
  metadata: optional(isMetadata),
  user: optional(isText),
  safety_identifier: optional(isText),
  provider: optional(isProviderChoice),
})

/**
 * Checks the body of a chat completion as far as the gateway and its translators rely on it. Unknown members pass.
 *
 * Returns the first fault; if there is none, the body is a ChatRequest.
 */
export function checkChatRequest(body: unknown): Fault | undefined {
  return isRequest(body)
}
