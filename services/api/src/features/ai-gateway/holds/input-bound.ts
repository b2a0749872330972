import { isRecord } from '@platform/ai-protocols/record'
import type { InferenceRequest } from '../operations.ts'
import { unsupportedUnderBudget } from './unsupported-under-budget.ts'

type Path = readonly (string | number)[]
type Fields = Readonly<Record<string, unknown>>

/** The billable contents of a request. Tokens of text are at most its bytes. */
export interface SentInput {
  textBytes: number
  /** Paths of images, files and audio in the body. */
  images: readonly Path[]
  files: readonly Path[]
  sounds: readonly Path[]
  /** True if the request has tools or a schema, which providers describe to their models. */
  hasTools: boolean
}

/** Members without cost beyond the counted tokens, or checked below. Any other may be charged for. */
const known: Readonly<Record<InferenceRequest['operation'], ReadonlySet<string>>> = {
  'chat.completions': new Set(
    `model messages stream stream_options max_tokens max_completion_tokens n temperature top_p top_k min_p top_a typical_p
      repetition_penalty frequency_penalty presence_penalty logit_bias logprobs top_logprobs seed stop stop_token_ids response_format
      tools tool_choice parallel_tool_calls functions function_call user safety_identifier metadata store reasoning reasoning_effort
      thinking verbosity prompt_cache_key service_tier modalities`.split(/\s+/),
  ),
  responses: new Set(
    `model input instructions stream stream_options max_output_tokens temperature top_p top_logprobs include text tools tool_choice
      parallel_tool_calls max_tool_calls user safety_identifier metadata store reasoning truncation previous_response_id
      prompt_cache_key background service_tier`.split(/\s+/),
  ),
  'audio.speech': new Set(
    'model input voice instructions response_format speed stream_format user metadata'.split(' '),
  ),
  'audio.transcriptions': new Set(
    `model input_audio file language prompt response_format temperature stream include include[] timestamp_granularities
      timestamp_granularities[] chunking_strategy chunking_strategy[type] user metadata provider`.split(/\s+/),
  ),
  videos: new Set('model prompt duration seconds size resolution aspect_ratio seed user metadata'.split(' ')),
}

/** Tools that the caller runs. All others run at the provider, which charges for some of them. */
const callersTools = new Set(['function', 'custom'])

/** Types of parts and items that are text, or calls of the caller's own tools. */
const textTypes = new Set(
  `text input_text output_text summary_text reasoning_text refusal message reasoning function_call function_call_output
    custom_tool_call custom_tool_call_output function tool_result thinking`.split(/\s+/),
)
const imageTypes = new Set(['image_url', 'input_image', 'image'])
const fileTypes = new Set(['file', 'input_file', 'document'])

const isSent = (value: unknown): boolean => value != null

const NULL_BYTES = 4

/** Members of messages and items whose own members are not parts, whatever their type. */
const untyped = new Set(['arguments', 'cache_control', 'parameters'])

/** Returns the bytes of a value as JSON. Some tokenizers first normalize a text, which may make it longer. */
function jsonBytes(value: string | number | boolean): number {
  const bytes = Buffer.byteLength(JSON.stringify(value))
  // oxlint-disable-next-line no-control-regex -- ASCII stays as it is
  if (typeof value !== 'string' || /^[\x00-\x7f]*$/.test(value)) return bytes
  return Math.max(bytes, Buffer.byteLength(value.normalize('NFC')), Buffer.byteLength(value.normalize('NFKC')))
}

/** True for an element of a message's content, or of a tool's output: only there can a type mark something other than text. */
const isPart = (path: Path): boolean =>
  typeof path.at(-1) === 'number' && ['content', 'output'].includes(String(path.at(-2)))

/** Members of such parts that contain an image, a file or audio, or refer to one. All other members are text. */
const mediaMembers = new Set(['url', 'image_url', 'data', 'file_data', 'file_url'])

/**
 * Measures the contents of a request. Throws AiError, `unsupported_under_budget`, for the first member that is or may be charged
 * for beyond tokens of text, images, files and audio.
 */
export function measureInput({ operation, body }: Pick<InferenceRequest, 'operation' | 'body'>): SentInput {
  for (const [name, value] of Object.entries(body))
    if (isSent(value) && !known[operation].has(name)) throw unsupportedUnderBudget([name], 'what it costs is not known')
  requireNoPricedOption(body)
  const images: Path[] = []
  const files: Path[] = []
  const sounds: Path[] = []
  let textBytes = 0
  // Without recursion: a body may be nested deeper than the stack allows.
  const waiting: { value: unknown; path: Path; of: 'content' | 'media' | 'other' }[] = []
  const expect = (value: unknown, path: Path, of: 'content' | 'media' | 'other') => waiting.push({ value, path, of })
  for (const [name, value] of Object.entries(body)) {
    textBytes += jsonBytes(name) + 2
    // The audio of a transcription is measured by its file.
    if (name !== 'input_audio' || operation !== 'audio.transcriptions')
      expect(value, [name], name === 'messages' || name === 'input' ? 'content' : 'other')
  }
  /** Notes the kind of a part; what remains is text. */
  const kindOf = (value: Fields, path: Path): 'content' | 'media' => {
    const { type } = value
    if (type === undefined || (typeof type === 'string' && textTypes.has(type))) return 'content'
    if (!isPart(path) || typeof type !== 'string') throw unsupportedUnderBudget(path, 'what it costs is not known')
    if (imageTypes.has(type)) images.push(path)
    else if (fileTypes.has(type)) requireOwnFile(value, path, files)
    else if (type === 'input_audio') sounds.push(path)
    else throw unsupportedUnderBudget(path, 'what it costs is not known')
    return 'media'
  }
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, path } = next
    if (Array.isArray(value)) {
      textBytes += 2 + value.length
      for (const [n, item] of value.entries()) expect(item, [...path, n], next.of)
    } else if (isRecord(value)) {
      const of = next.of === 'content' ? kindOf(value, path) : next.of
      for (const [name, member] of Object.entries(value)) {
        textBytes += jsonBytes(name) + 2
        if (name === 'cache_control') requireShortCache(member, [...path, name])
        if (of === 'content') requireOwnContent(name, member, [...path, name])
        if (of === 'media' && typeof member === 'string' && mediaMembers.has(name)) continue
        expect(member, [...path, name], of === 'content' && untyped.has(name) ? 'other' : of)
      }
    } else if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      textBytes += jsonBytes(value)
    else textBytes += NULL_BYTES
  }
  const explained = ['tools', 'functions', 'response_format', 'text']
  return { textBytes, images, files, sounds, hasTools: explained.some((name) => isSent(body[name])) }
}

/** Throws for members that select another price. */
function requireNoPricedOption(body: Fields): void {
  const { service_tier: tier, modalities, tools, stream_options: options, duration, seconds } = body
  if (isSent(tier) && tier !== 'default')
    throw unsupportedUnderBudget(['service_tier'], 'only the tier default has a price that is known')
  // If every chunk reports usage, the last one need not report all of it.
  for (const [name, value] of Object.entries(isRecord(options) ? options : {}))
    if (isSent(value) && name !== 'include_usage' && name !== 'include_obfuscation')
      throw unsupportedUnderBudget(['stream_options', name], 'what it does to the usage is not known')
  if (isSent(duration) && isSent(seconds) && Number(duration) !== Number(seconds))
    throw unsupportedUnderBudget(['seconds'], 'duration says another length')
  if (Array.isArray(modalities))
    for (const [n, modality] of modalities.entries())
      if (modality !== 'text') throw unsupportedUnderBudget(['modalities', n], 'only text can be bounded')
  if (Array.isArray(tools))
    for (const [n, tool] of tools.entries())
      if (!isRecord(tool) || !callersTools.has(String(tool['type'])))
        throw unsupportedUnderBudget(['tools', n], 'tools that the provider runs have prices of their own')
}

/** Throws for a file stored at the provider, whose size is unknown here. */
function requireOwnFile(part: Fields, path: Path, files: Path[]): void {
  const inner = isRecord(part['file']) ? part['file'] : {}
  if (isSent(part['file_id']) || isSent(inner['file_id']))
    throw unsupportedUnderBudget([...path, 'file_id'], 'how large it is is not known')
  files.push(path)
}

/** Throws for content stored elsewhere: images that are not parts of their own, files, and earlier spoken answers. */
function requireOwnContent(name: string, member: unknown, path: Path): void {
  const isElsewhere =
    typeof member === 'string'
      ? ['file_id', 'image_url', 'file_url'].includes(name)
      : name === 'audio' && isSent(member)
  if (isElsewhere) throw unsupportedUnderBudget(path, 'what it costs is not known')
}

/** Throws for a cache kept for longer than five minutes, since writing it has another price. */
function requireShortCache(control: unknown, path: Path): void {
  const ttl = isRecord(control) ? control['ttl'] : undefined
  if (isSent(ttl) && ttl !== '5m')
    throw unsupportedUnderBudget([...path, 'ttl'], 'what such a cache costs is not known')
}
