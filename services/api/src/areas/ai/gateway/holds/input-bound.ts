import { isRecord } from '@platform/ai-protocols/record'
import type { InferenceRequest } from '../operations.ts'
import { UnsupportedUnderBudget } from './unsupported-under-budget.ts'

type Path = readonly (string | number)[]
type Fields = Readonly<Record<string, unknown>>

/** Something in a request whose size only its provider knows. */
interface Unsized {
  path: Path
  why: string
}

/** The billable contents of a request. Tokens of text are at most its bytes. */
export interface SentInput {
  textBytes: number
  /** Paths of images, files and audio in the body. */
  images: readonly Path[]
  files: readonly Path[]
  sounds: readonly Path[]
  unsized: readonly Unsized[]
  /** True if some of it may be audio, which may have a price of its own. */
  mayHaveAudio: boolean
  /** Top-level members whose effect on the price is unknown. */
  unknown: readonly string[]
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

/** Members that no provider is trusted to offer for nothing: elsewhere they have a price, or lead to content of any size. */
const priced: ReadonlySet<string> = new Set(
  `audio background best_of cache_control callback_url container context_management conversation inference_geo extra_body mcp_servers models plugins
    prediction prompt provider route speed web_search_options`.split(/\s+/),
)

/** True for members whose price the gateway itself bounds or refuses, in any operation: an operator cannot vouch for them. */
export const isPricedMember = (name: string): boolean =>
  priced.has(name) || Object.values(known).some((members) => members.has(name))

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

/** True for an image in the body itself. Behind an address there may be anything. */
function isOwnImage({ image_url: image }: Fields): boolean {
  const url = isRecord(image) ? image['url'] : image
  return typeof url === 'string' && /^data:image\//i.test(url)
}

/**
 * Measures the contents of a request. Throws UnsupportedUnderBudget for the first known member that is or may be charged for beyond
 * tokens of text, images, files and audio.
 */
export function measureInput({ operation, body }: Pick<InferenceRequest, 'operation' | 'body'>): SentInput {
  const unknown = Object.keys(body).filter((name) => isSent(body[name]) && !known[operation].has(name))
  requireNoPricedOption(body)
  const images: Path[] = []
  const files: Path[] = []
  const sounds: Path[] = []
  const unsized: Unsized[] = []
  let mayHaveAudio = operation === 'audio.transcriptions'
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
    if (type === 'item_reference') {
      unsized.push({ path: [...path, 'id'], why: 'how long the item is is not known' })
      return 'content'
    }
    if (!isPart(path) || typeof type !== 'string') throw new UnsupportedUnderBudget(path, 'what it costs is not known')
    if (imageTypes.has(type)) images.push(path)
    else if (fileTypes.has(type)) {
      if (isStoredFile(value)) unsized.push({ path: [...path, 'file_id'], why: 'how large it is is not known' })
      else files.push(path)
    } else if (type === 'input_audio') sounds.push(path)
    else throw new UnsupportedUnderBudget(path, 'what it costs is not known')
    mayHaveAudio ||= !imageTypes.has(type) || !isOwnImage(value)
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
        if (of === 'content' && isElsewhere(name, member))
          unsized.push({ path: [...path, name], why: 'what it costs is not known' })
        if (of === 'media' && typeof member === 'string' && mediaMembers.has(name)) continue
        expect(member, [...path, name], of === 'content' && untyped.has(name) ? 'other' : of)
      }
    } else if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      textBytes += jsonBytes(value)
    else textBytes += NULL_BYTES
  }
  const explained = ['tools', 'functions', 'response_format', 'text']
  const hasTools = explained.some((name) => isSent(body[name]))
  mayHaveAudio ||= unsized.length > 0
  return { textBytes, images, files, sounds, unsized, mayHaveAudio, unknown, hasTools }
}

/** Throws for members that select another price. */
function requireNoPricedOption(body: Fields): void {
  const { service_tier: tier, modalities, tools, stream_options: options, duration, seconds } = body
  if (isSent(tier) && tier !== 'default')
    throw new UnsupportedUnderBudget(['service_tier'], 'only the tier default has a price that is known')
  // If every chunk reports usage, the last one need not report all of it.
  for (const [name, value] of Object.entries(isRecord(options) ? options : {}))
    if (isSent(value) && name !== 'include_usage' && name !== 'include_obfuscation')
      throw new UnsupportedUnderBudget(['stream_options', name], 'what it does to the usage is not known')
  if (isSent(duration) && isSent(seconds) && Number(duration) !== Number(seconds))
    throw new UnsupportedUnderBudget(['seconds'], 'duration says another length')
  if (Array.isArray(modalities))
    for (const [n, modality] of modalities.entries())
      if (modality !== 'text') throw new UnsupportedUnderBudget(['modalities', n], 'only text can be bounded')
  if (Array.isArray(tools))
    for (const [n, tool] of tools.entries())
      if (!isRecord(tool) || !callersTools.has(String(tool['type'])))
        throw new UnsupportedUnderBudget(['tools', n], 'tools that the provider runs have prices of their own')
}

/** True for a file that the provider stores. */
const isStoredFile = (part: Fields): boolean =>
  isSent(part['file_id']) || (isRecord(part['file']) && isSent(part['file']['file_id']))

/** True for content stored elsewhere: images that are not parts of their own, files, and earlier spoken answers. */
const isElsewhere = (name: string, member: unknown): boolean =>
  typeof member === 'string' ? ['file_id', 'image_url', 'file_url'].includes(name) : name === 'audio' && isSent(member)

/** Throws for a cache kept for longer than five minutes, since writing it has another price. */
function requireShortCache(control: unknown, path: Path): void {
  const ttl = isRecord(control) ? control['ttl'] : undefined
  if (isSent(ttl) && ttl !== '5m')
    throw new UnsupportedUnderBudget([...path, 'ttl'], 'what such a cache costs is not known')
}
