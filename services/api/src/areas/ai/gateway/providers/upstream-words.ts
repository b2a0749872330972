import { paramOf } from '@platform/ai-protocols/fault'
import { isRecord, listOf } from '@platform/ai-protocols/record'

/** Larger documents are not searched for an error. */
export const WORDS_BYTES_MAX = 65_536
/** How many of a list of errors are told. */
const DETAILS_MAX = 4

/** What a provider says of its failure. The texts can quote anything, such as the request or the key. */
interface UpstreamWords {
  message: string | undefined
  code: string | undefined
  param: string | undefined
  /** The status that it names, from 400 to 599. */
  status: number | undefined
}

type Fields = Readonly<Record<string, unknown>>

/** Statuses of the error types and codes that OpenAI and Anthropic publish. */
const statuses: Readonly<Record<string, number>> = {
  api_error: 500,
  authentication_error: 401,
  billing_error: 402,
  context_length_exceeded: 400,
  insufficient_quota: 429,
  invalid_api_key: 401,
  invalid_prompt: 400,
  invalid_request_error: 400,
  model_not_found: 404,
  not_found_error: 404,
  overloaded_error: 529,
  permission_error: 403,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  request_too_large: 413,
  server_error: 500,
  timeout_error: 504,
}

const filledText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

const recordOf = (value: unknown): Fields | undefined => (isRecord(value) ? value : undefined)

/** Google sends its errors in an array. */
const unlisted = (value: unknown): Fields | undefined => recordOf(Array.isArray(value) ? value[0] : value)

/** True for anything but null, an empty text, list or object, false and zero. */
export const isFilled = (value: unknown): boolean =>
  typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value)

/** True for an event or document with which a provider tells that it failed. */
export function isFailure(value: unknown): boolean {
  const outer = unlisted(value)
  if (!outer) return false
  const { error, type, object, choices, detail, errors } = outer
  if (type === 'error' || type === 'response.failed' || object === 'error') return true
  if (isFilled(error)) return typeof type !== 'string' || !type.startsWith('response.')
  return type === undefined && choices === undefined && (isFilled(detail) || isFilled(errors))
}

/** Parses a document that may hold words. Returns undefined if it is not JSON. */
export function parseWords(body: Buffer): unknown {
  if (body.length > WORDS_BYTES_MAX) return undefined
  try {
    return JSON.parse(body.toString('utf8')) as unknown
  } catch {
    return undefined
  }
}

/** Parses a document that tells of a failure. Returns undefined if it does not. */
export function readFailure(body: Buffer): unknown {
  const value = parseWords(body)
  return isFailure(value) ? value : undefined
}

const isPathPart = (part: unknown): part is string | number =>
  part !== 'body' && (typeof part === 'string' || typeof part === 'number')

/** Returns the parts of a path in a body, as FastAPI names it. */
const pathOf = (item: unknown): (string | number)[] => listOf(item, 'loc').filter(isPathPart)

/** Formats a list of what is wrong with which member. */
function listed(items: readonly unknown[]): string | undefined {
  const texts = items.slice(0, DETAILS_MAX).flatMap((item) => {
    const { msg, message, detail } = recordOf(item) ?? {}
    const text = filledText(item) ?? filledText(msg) ?? filledText(message) ?? filledText(detail)
    const path = pathOf(item)
    return text === undefined ? [] : path.length > 0 ? `${paramOf(path)}: ${text}` : text
  })
  return texts.length === 0 ? undefined : texts.join('; ')
}

/** Returns the status that a number or its digits name. */
function statusIn(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value
  return Number.isInteger(number) && Number(number) >= 400 && Number(number) < 600 ? Number(number) : undefined
}

const statusNamed = (name: unknown): number | undefined =>
  typeof name === 'string' && Object.hasOwn(statuses, name) ? statuses[name] : undefined

/**
 * Reads a provider's error: `{ error: { message } }` as OpenAI, Anthropic and most others send it, the same in an array (Google),
 * `{ error: "text" }`, `{ message }`, `{ detail }` of a text or a list (FastAPI), `{ errors: [...] }`, and a response that failed.
 */
export function readWords(value: unknown): UpstreamWords {
  const outer = unlisted(value) ?? {}
  const details = listOf(outer, 'detail')
  const errors = listOf(outer, 'errors')
  const named = recordOf(outer['error']) ?? recordOf(recordOf(outer['response'])?.['error'])
  const { code, type, param, status } = named ?? recordOf(errors[0]) ?? outer
  const path = pathOf(details[0])
  return {
    message:
      filledText(named?.['message']) ??
      filledText(outer['error']) ??
      filledText(outer['errors']) ??
      listed(errors) ??
      listed(details) ??
      filledText(outer['detail']) ??
      filledText(outer['message']),
    code: filledText(code) ?? filledText(type),
    param: filledText(param) ?? (path.length > 0 ? paramOf(path) : undefined),
    status:
      [status, code, outer['status'], outer['code']].map(statusIn).find((each) => each !== undefined) ??
      statusNamed(code) ??
      statusNamed(type),
  }
}
