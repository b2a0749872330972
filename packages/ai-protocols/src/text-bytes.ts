import { isRecord, listOf, memberOf, textOf } from './record.ts'

/** The endpoints whose requests contain text. */
export type RequestKind = 'chat' | 'responses' | 'speech' | 'transcription' | 'video'

/** Members of messages and items that a model does not read as text: names of the protocol, addresses, and encoded media. */
const NOT_TEXT = new Set([
  'call_id',
  'data',
  'detail',
  'file_data',
  'file_id',
  'file_url',
  'format',
  'id',
  'image_url',
  'role',
  'status',
  'tool_call_id',
  'type',
  'url',
])

const bytesOf = (text: unknown): number => (typeof text === 'string' ? Buffer.byteLength(text) : 0)

// Both traverse without recursion: a body may be nested deeper than the stack allows.
function nestedTextBytes(value: unknown): number {
  let bytes = 0
  const waiting: unknown[] = [value]
  while (waiting.length > 0) {
    const next = waiting.pop()
    if (Array.isArray(next)) for (const element of next) waiting.push(element)
    else if (isRecord(next)) {
      for (const [name, member] of Object.entries(next)) {
        if (typeof member !== 'string' || !NOT_TEXT.has(name)) waiting.push(member)
      }
    } else bytes += bytesOf(next)
  }
  return bytes
}

function jsonBytes(value: unknown): number {
  if (value == null) return 0
  let bytes = 0
  const waiting: unknown[] = [value]
  while (waiting.length > 0) {
    const next = waiting.pop()
    if (Array.isArray(next)) {
      bytes += 2 + Math.max(0, next.length - 1)
      for (const element of next) waiting.push(element)
    } else if (isRecord(next)) {
      const entries = Object.entries(next)
      bytes += 2 + Math.max(0, entries.length - 1)
      for (const [name, member] of entries) {
        bytes += Buffer.byteLength(JSON.stringify(name)) + 1
        waiting.push(member)
      }
    } else bytes += Buffer.byteLength(JSON.stringify(next) ?? '')
  }
  return bytes
}

const textMembers: Record<RequestKind, readonly string[]> = {
  chat: ['messages', 'prediction'],
  responses: ['instructions', 'input', 'prompt'],
  speech: ['input', 'instructions'],
  transcription: ['prompt'],
  video: ['prompt'],
}

const jsonMembers: Record<RequestKind, readonly string[]> = {
  chat: ['tools', 'functions', 'response_format'],
  responses: ['tools', 'text'],
  speech: [],
  transcription: [],
  video: [],
}

/**
 * Counts the UTF-8 bytes of the text that a request sends to its model: messages, instructions and input, calls and results of
 * tools, and, as JSON, the offered tools and schemas. Images, audio and files are not counted, whether encoded or by URL.
 *
 * body: JSON of any shape. Text in unknown members is counted.
 */
export function requestTextBytes(kind: RequestKind, body: unknown): number {
  let bytes = 0
  for (const name of textMembers[kind]) bytes += nestedTextBytes(memberOf(body, name))
  for (const name of jsonMembers[kind]) bytes += jsonBytes(memberOf(body, name))
  return bytes
}

/**
 * Counts the text of a message, or of the delta in a chunk. Content may be an array of parts, counted as in requests. Upstreams may
 * send the same reasoning under both of its names.
 */
function messageTextBytes(message: unknown): number {
  let bytes =
    nestedTextBytes(memberOf(message, 'content')) +
    bytesOf(memberOf(message, 'refusal')) +
    bytesOf(memberOf(memberOf(message, 'audio'), 'transcript')) +
    bytesOf(textOf(message, 'reasoning_content') || textOf(message, 'reasoning')) +
    callTextBytes(memberOf(message, 'function_call'))
  for (const call of listOf(message, 'tool_calls')) {
    bytes += callTextBytes(memberOf(call, 'function')) + callTextBytes(memberOf(call, 'custom'))
  }
  return bytes
}

function callTextBytes(call: unknown): number {
  return bytesOf(memberOf(call, 'name')) + bytesOf(memberOf(call, 'arguments')) + bytesOf(memberOf(call, 'input'))
}

/** Counts the UTF-8 bytes of text, refusals, reasoning, and names and arguments of calls in a chat completion. */
export function completionTextBytes(body: unknown): number {
  return listOf(body, 'choices').reduce<number>((sum, choice) => sum + messageTextBytes(memberOf(choice, 'message')), 0)
}

/** Counts the same for a chunk of a chat completion. */
export function chatChunkTextBytes(chunk: unknown): number {
  return listOf(chunk, 'choices').reduce<number>((sum, choice) => sum + messageTextBytes(memberOf(choice, 'delta')), 0)
}

/** Counts the same for a response (`POST /responses`), including its reasoning summaries. */
export function responseTextBytes(body: unknown): number {
  let bytes = 0
  for (const item of listOf(body, 'output')) {
    bytes += callTextBytes(item)
    for (const part of [...listOf(item, 'content'), ...listOf(item, 'summary')]) {
      bytes += bytesOf(memberOf(part, 'text')) + bytesOf(memberOf(part, 'refusal'))
    }
  }
  return bytes
}

/** Counts the same for an event of a streamed response: each piece once, not again in events that repeat the whole. */
export function responseEventTextBytes(event: unknown): number {
  const type = textOf(event, 'type') ?? ''
  if (type === 'response.output_item.added') return bytesOf(memberOf(memberOf(event, 'item'), 'name'))
  // Audio comes as base64; its transcript has events of its own.
  return type.endsWith('.delta') && type !== 'response.audio.delta' ? bytesOf(memberOf(event, 'delta')) : 0
}
