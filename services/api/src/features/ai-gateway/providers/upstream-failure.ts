import { AiError } from '@platform/errors/ai-error'
import { describeAiFailure } from '@platform/errors/render-error'
import type { KeyedRoute } from './choose-routes.ts'

const MESSAGE_BYTES_MAX = 1_024
const RELAYED = new Set([400, 404, 413, 422])
const noRetry = { 'x-should-retry': 'false' }

/** The parts of a provider's error document that may be shown: what is wrong with the request, in the provider's words. */
interface UpstreamError {
  message: string | undefined
  code: string | undefined
  param: string | undefined
}

const filledText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** True if the text contains the key, or enough of it to be useful. */
function quotesKey(text: string, key: string): boolean {
  const pieceLength = 8
  if (key.length <= pieceLength) return key !== '' && text.includes(key)
  for (let from = 0; from + pieceLength <= key.length; from++)
    if (text.includes(key.slice(from, from + pieceLength))) return true
  return false
}

function readError(body: Buffer, key: string): UpstreamError {
  const nothing = { message: undefined, code: undefined, param: undefined }
  let value: unknown
  try {
    value = JSON.parse(body.toString('utf8'))
  } catch {
    return nothing
  }
  // OpenAI and Anthropic nest it under `error`; some send `{ message }`, some `{ error: "text" }`.
  const outer = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  const inner = typeof outer['error'] === 'object' && outer['error'] !== null ? outer['error'] : outer
  const { message, code, type, param } = inner as Record<string, unknown>
  const safe = (text: string | undefined) => (text === undefined || quotesKey(text, key) ? undefined : text)
  const name = (text: string | undefined) =>
    text !== undefined && /^[\w.[\]-]{1,128}$/.test(text) ? safe(text) : undefined
  return {
    message: safe(filledText(message) ?? filledText(outer['error'])),
    code: name(filledText(code) ?? filledText(type)),
    param: name(filledText(param)),
  }
}

/** Cuts a text to a kilobyte, at a character boundary. */
function cut(text: string): string {
  if (Buffer.byteLength(text) <= MESSAGE_BYTES_MAX) return text
  const bytes = Buffer.from(text).subarray(0, MESSAGE_BYTES_MAX - 4)
  return `${bytes.toString('utf8').replace(/\ufffd+$/, '')}…`
}

/** Published codes of OpenAI and Anthropic for errors in a request. */
const publishedCodes = new Set([
  'content_policy_violation',
  'context_length_exceeded',
  'invalid_base64',
  'invalid_image',
  'invalid_prompt',
  'invalid_request_error',
  'invalid_type',
  'invalid_value',
  'missing_required_parameter',
  'model_not_found',
  'not_found_error',
  'request_too_large',
  'string_above_max_length',
  'unknown_parameter',
  'unsupported_parameter',
  'unsupported_value',
])

/** A rejection in the provider's own words. They may quote the request, so only its caller may read them. */
class UpstreamRefusal extends AiError {}

/** Returns the code of a failure for events: only published ones, since a provider can send anything. */
export function recordedCode(error: unknown): string | null {
  const { code } = describeAiFailure(error)
  const isPublished = code !== null && publishedCodes.has(code)
  return error instanceof UpstreamRefusal && !isPublished ? 'upstream_refused' : code
}

const whose = ({ keyOwner, provider }: KeyedRoute): string =>
  keyOwner === 'organization'
    ? `The organization’s own key of the provider ${provider.id}`
    : `The operator’s key of the provider ${provider.id}`

/** Converts a provider's answer to a failure. Its words are shown if they are about the request, and never logged. */
export function failureOfStatus(status: number, body: Buffer, route: KeyedRoute): AiError {
  const { provider, key } = route
  if (RELAYED.has(status)) {
    const { message, code, param } = readError(body, key)
    const shown = cut(message ?? `The provider ${provider.id} refused the request with ${status}`)
    return new UpstreamRefusal(status, 'invalid_request_error', code ?? 'upstream_refused', shown, {
      param: param ?? null,
    })
  }
  if (status === 429)
    return new AiError(
      429,
      'rate_limit_error',
      'upstream_rate_limited',
      `The provider ${provider.id} takes no more requests for now`,
      { headers: noRetry },
    )
  if (status === 401 || status === 402 || status === 403)
    return new AiError(503, 'api_error', 'provider_unavailable', `${whose(route)} was refused`)
  return upstreamError(route, `answered ${status}`)
}

/** Makes a 503 for any other failure of the provider. what: the predicate of the sentence. */
export const upstreamError = ({ provider }: KeyedRoute, what: string): AiError =>
  new AiError(503, 'api_error', 'upstream_error', `The provider ${provider.id} ${what}`)

export const upstreamTimeout = ({ provider }: KeyedRoute): AiError =>
  new AiError(503, 'api_error', 'upstream_timeout', `The provider ${provider.id} did not answer in time`)

export const tookTooLong = (): AiError => new AiError(503, 'api_error', 'upstream_timeout', 'The call took too long')

export const shuttingDown = (): AiError =>
  new AiError(503, 'api_error', 'server_shutdown', 'The server is stopping; send the request again')
