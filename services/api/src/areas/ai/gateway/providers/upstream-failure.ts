import { AiError } from '@platform/errors/ai-error'
import { describeAiFailure } from '@platform/errors/render-error'
import { ShuttingDown, TookTooLong } from '../abort-reasons.ts'
import type { KeyedRoute } from './choose-routes.ts'
import { AnswerTooLarge, BrokenStream, ToldFailure } from './stream-reader.ts'
import { LostAnswer, NotConnected } from './upstream-client.ts'
import { readWords } from './upstream-words.ts'

const MESSAGE_BYTES_MAX = 1_024
const RELAYED = new Set([400, 404, 413, 422])
const noRetry = { 'x-should-retry': 'false' }

/** The parts of a provider's error that may be shown, to the caller alone: they may quote the request. */
interface ShownError {
  message: string | undefined
  code: string | undefined
  param: string | undefined
}

/** True if the text contains the key, or enough of it to be useful. */
function quotesKey(text: string, key: string): boolean {
  const pieceLength = 8
  if (key.length <= pieceLength) return key !== '' && text.includes(key)
  for (let from = 0; from + pieceLength <= key.length; from++)
    if (text.includes(key.slice(from, from + pieceLength))) return true
  return false
}

function readError(value: unknown, key: string): ShownError {
  const { message, code, param } = readWords(value)
  const safe = (text: string | undefined) => (text === undefined || quotesKey(text, key) ? undefined : text)
  const name = (text: string | undefined) =>
    text !== undefined && /^[\w.[\]-]{1,128}$/.test(text) ? safe(text) : undefined
  return { message: safe(message), code: name(code), param: name(param) }
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

/** A rejection of the request by the provider. */
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

/**
 * Converts a provider's status to a failure. The words of its error reach the caller and no log; those about a key, an account or
 * its limits do not reach callers with somebody else's key.
 *
 * value: the error, parsed; undefined if nothing readable came. predicate: of the sentence about the status.
 */
export function failureOfStatus(
  status: number,
  value: unknown,
  route: KeyedRoute,
  predicate = `answered ${status}`,
): AiError {
  const { provider, key } = route
  if (RELAYED.has(status)) {
    const { message, code, param } = readError(value, key)
    return new UpstreamRefusal(
      status,
      'invalid_request_error',
      code ?? 'upstream_refused',
      `The provider ${provider.id} refused the request with ${status}`,
      { param: param ?? null, told: message && cut(message) },
    )
  }
  if (status === 429) {
    const limited = `The provider ${provider.id} takes no more requests for now`
    const told = mayTell(status, route) ? withWords(limited, value, route) : undefined
    return new AiError(429, 'rate_limit_error', 'upstream_rate_limited', limited, { headers: noRetry, told })
  }
  if (status === 401 || status === 402 || status === 403) {
    const what = status === 402 ? 'is out of credit' : 'was refused'
    return new AiError(503, 'api_error', 'provider_unavailable', `${whose(route)} ${what}`, { headers: noRetry })
  }
  return upstreamError(route, predicate, value)
}

/** True if a caller may read what is said with a status: of a key nobody may, of a limit whose key is their own. */
function mayTell(status: number | undefined, { keyOwner }: KeyedRoute): boolean {
  if (status === 401 || status === 402 || status === 403) return false
  return status !== 429 || keyOwner === 'organization'
}

/** Adds the provider's words to a sentence. Returns undefined if there are none to show. */
function withWords(sentence: string, value: unknown, { key }: KeyedRoute): string | undefined {
  const { message } = readError(value, key)
  return message && cut(`${sentence}: ${message}`)
}

/** Makes a 503 for any other failure of the provider. what: the predicate of the sentence. value: the error that it sent. */
export function upstreamError(route: KeyedRoute, what: string, value?: unknown): AiError {
  const message = `The provider ${route.provider.id} ${what}`
  return new AiError(503, 'api_error', 'upstream_error', message, { told: withWords(message, value, route) })
}

export const upstreamTimeout = ({ provider }: KeyedRoute): AiError =>
  new AiError(503, 'api_error', 'upstream_timeout', `The provider ${provider.id} did not answer in time`)

export const tookTooLong = (): AiError => new AiError(503, 'api_error', 'upstream_timeout', 'The call took too long')

export const shuttingDown = (): AiError =>
  new AiError(503, 'api_error', 'server_shutdown', 'The server is stopping; send the request again')

/** Converts what ended an exchange with a provider to the failure for the caller, and to the name of it in the attempt. */
export function failureOfExchange(route: KeyedRoute, error: unknown): { failure: AiError; name: string } {
  if (error instanceof AiError) return { failure: error, name: recordedCode(error) ?? error.type }
  if (error instanceof ShuttingDown) return { failure: shuttingDown(), name: 'server_shutdown' }
  if (error instanceof TookTooLong) return { failure: upstreamTimeout(route), name: 'timeout' }
  if (error instanceof NotConnected)
    return { failure: upstreamError(route, 'could not be reached'), name: 'not_connected' }
  if (error instanceof ToldFailure)
    return {
      failure: upstreamError(
        route,
        'failed in the middle of its answer',
        mayTell(readWords(error.value).status, route) ? error.value : undefined,
      ),
      name: 'upstream_error',
    }
  if (error instanceof BrokenStream) {
    const what = error instanceof AnswerTooLarge ? 'is too large' : 'cannot be read'
    return { failure: upstreamError(route, `sent an answer that ${what}`), name: 'bad_answer' }
  }
  const what = error instanceof LostAnswer ? 'closed the connection' : 'cut its answer off'
  return { failure: upstreamError(route, what), name: 'connection_lost' }
}
