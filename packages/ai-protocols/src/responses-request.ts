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
  within,
} from './fault.ts'
import { isRecord } from './record.ts'

/** An item of the input: a message if it has no type, or whatever its `type` names. */
export interface ResponsesItem {
  type?: string | null
  [member: string]: unknown
}

/** The body of `POST /responses` after `checkResponsesRequest`: members not listed here are unchecked. */
export interface ResponsesRequest {
  model: string
  input?: string | ResponsesItem[] | null
  instructions?: string | null
  stream?: boolean | null
  max_output_tokens?: number | null
  temperature?: number | null
  top_p?: number | null
  tools?: { type: string; [member: string]: unknown }[] | null
  tool_choice?: string | { type: string; [member: string]: unknown } | null
  parallel_tool_calls?: boolean | null
  text?: { format?: { type: string; [member: string]: unknown } | null; [member: string]: unknown } | null
  reasoning?: { effort?: string | null; [member: string]: unknown } | null
  previous_response_id?: string | null
  background?: boolean | null
  store?: boolean | null
  metadata?: Record<string, string> | null
  user?: string | null
  safety_identifier?: string | null
  provider?: ProviderChoice | null
  [member: string]: unknown
}

const isPart = isTypedObject({
  input_text: isObjectWith({ text: isText }),
  output_text: isObjectWith({ text: isText }),
  refusal: isObjectWith({ refusal: isText }),
  input_image: isObjectWith({ image_url: optional(isText), file_id: optional(isText) }),
  input_file: isObjectWith({
    file_data: optional(isText),
    file_id: optional(isText),
    file_url: optional(isText),
    filename: optional(isText),
  }),
})
const isParts = isListOf(isPart)
const contentFault = faultOf('must be a string or an array of parts')
const isContent = isTextOr((value) => (Array.isArray(value) ? isParts(value) : contentFault))

const isMessage = isObjectWith({
  role: isOneOf('user', 'assistant', 'system', 'developer'),
  content: isContent,
})
const isTypedItem = isTypedObject({
  message: isMessage,
  function_call: isObjectWith({ call_id: isFilledText, name: isFilledText, arguments: isText }),
  function_call_output: isObjectWith({ call_id: optional(isFilledText), output: isContent }),
})
const isItem: Check = (value) => (isRecord(value) && value['type'] == null ? isMessage(value) : isTypedItem(value))
const isItems = isListOf(isItem)
const isInput = isTextOr((value) =>
  Array.isArray(value) ? isItems(value) : faultOf('must be a string or an array of items'),
)

const isRequest = isObjectWith({
  model: isModelId,
  input: optional(isInput),
  instructions: optional(isText),
  stream: optional(isBoolean),
  max_output_tokens: optional(isIntegerFrom(1)),
  temperature: optional(isNumberFrom(0, 2)),
  top_p: optional(isNumberFrom(0, 1)),
  tools: optional(
    isListOf(
      isTypedObject({
        function: isObjectWith({
          name: isFilledText,
          description: optional(isText),
          parameters: optional(isObjectWith()),
        }),
      }),
    ),
  ),
  tool_choice: optional(isTextOr(isTypedObject({}))),
  parallel_tool_calls: optional(isBoolean),
  text: optional(
    isObjectWith({
      format: optional(isTypedObject({ json_schema: isObjectWith({ name: isText, schema: isObjectWith() }) })),
    }),
  ),
  reasoning: optional(isObjectWith({ effort: optional(isText) })),
  previous_response_id: optional(isFilledText),
  background: optional(isBoolean),
  store: optional(isBoolean),
  metadata: optional(isMetadata),
  user: optional(isText),
  safety_identifier: optional(isText),
  provider: optional(isProviderChoice),
})

/**
 * Checks the body of `POST /responses` as far as the gateway and its translators rely on it. Unknown members pass. The input may
 * be absent only if the request continues a response, conversation or prompt.
 *
 * Returns the first fault; if there is none, the body is a ResponsesRequest.
 */
export function checkResponsesRequest(body: unknown): Fault | undefined {
  const fault = isRequest(body)
  if (fault !== undefined || !isRecord(body)) return fault
  const continues = ['previous_response_id', 'conversation', 'prompt'].some((name) => body[name] != null)
  if (body['input'] == null && !continues) return within('input', faultOf('must be a string or an array of items'))
}
