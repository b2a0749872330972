import { AiError } from './ai-error.ts'
import {
  ApiError,
  Forbidden,
  InvalidToken,
  OAuthError,
  Throttled,
  TooManyStreams,
  ValidationFailed,
} from './api-error.ts'
import { S3Error } from './s3-error.ts'

/** The four wire formats of a failure. */
export type ErrorShape = 'resource' | 'oauth' | 'ai-gateway' | 's3'

/** A failure ready to be sent; header names are in lower case. */
export interface RenderedError {
  status: number
  headers: Record<string, string>
  body: string
}

const UNHANDLED = 'Internal error'

/** Turns anything but an ApiError into a 500 that reveals nothing of it (A §7). */
const known = (error: unknown): ApiError => (error instanceof ApiError ? error : new ApiError(500, UNHANDLED))

const json = (error: ApiError, body: unknown, headers?: Record<string, string>): RenderedError => ({
  status: error.status,
  headers: { ...headers, ...error.headers, 'content-type': 'application/json; charset=UTF-8' },
  body: JSON.stringify(body),
})

/** `{ error }`, plus the fields of a validation failure or of the throttle (A §7, A §8, D13). */
function renderResource(error: ApiError): RenderedError {
  if (error instanceof ValidationFailed) {
    const [{ property, summary, expected, found }] = error.failures
    const lead = { type: 'validation', on: error.on, property, message: error.message, summary, expected, found }
    const errors = error.failures.map((failure) => ({ type: 'validation', on: error.on, ...failure }))
    return json(error, { error: error.message, ...lead, errors })
  }
  if (error instanceof Throttled) return json(error, { error: 'rate_limit_exceeded', message: error.message })
  if (error instanceof TooManyStreams)
    return json(error, { error: 'too_many_concurrent_streams', message: error.message })
  return json(error, { error: error.message })
}

function oauthCode(error: ApiError): string {
  if (error instanceof OAuthError) return error.error
  if (error instanceof InvalidToken) return 'invalid_token'
  if (error instanceof Throttled) return 'rate_limit_exceeded'
  if (error instanceof Forbidden) return error.reason
  if (error.status === 503) return 'temporarily_unavailable'
  return error.status >= 500 ? 'server_error' : 'invalid_request'
}

/** `{ error, error_description }`, never cached (RFC 6749 §5.2). For the throttle, A's members are added (A §8). */
function renderOAuth(error: ApiError): RenderedError {
  const body = { error: oauthCode(error), error_description: error.message }
  return json(error, error instanceof Throttled ? { ...body, message: error.message } : body, {
    'cache-control': 'no-store',
  })
}

const aiKinds: Record<number, readonly [type: string, code: string | null]> = {
  400: ['invalid_request_error', null],
  401: ['authentication_error', 'invalid_token'],
  403: ['permission_error', 'access_denied'],
  404: ['invalid_request_error', 'not_found'],
  409: ['invalid_request_error', 'conflict'],
  413: ['invalid_request_error', 'request_too_large'],
  422: ['invalid_request_error', 'invalid_value'],
  429: ['rate_limit_error', 'rate_limit_exceeded'],
  500: ['api_error', 'internal_error'],
  503: ['api_error', 'service_unavailable'],
}

/** The members of an AI gateway failure; all four are always present. */
export interface AiFailure {
  message: string
  type: string
  param: string | null
  code: string | null
}

/** A JSON pointer as OpenAI's API writes it: `messages[0].role`; null for the whole document. */
function paramOf(pointer: string): string | null {
  const param = pointer
    .replaceAll(/\/(\d+)(?=\/|$)/g, '[$1]')
    .replaceAll('/', '.')
    .slice(1)
  return param === '' ? null : param
}

/** Describes a failure for a response, a stream or a usage event of the AI gateway. Reveals nothing of an unforeseen one. */
export function describeAiFailure(thrown: unknown): AiFailure & { status: number } {
  const error = known(thrown)
  const { status, message } = error
  if (error instanceof AiError)
    return { status, message: error.told, type: error.type, param: error.param, code: error.code }
  const [type, code] = aiKinds[status] ?? ['api_error', null]
  const param = error instanceof ValidationFailed ? paramOf(error.failures[0].property) : null
  return { status, message, type, param, code: error instanceof Forbidden ? error.reason : code }
}

/** `{ error: { message, type, param, code } }` (A §7 AI gateway errors, D21). */
function renderAiGateway(error: ApiError): RenderedError {
  const { message, type, param, code } = describeAiFailure(error)
  return json(error, { error: { message, type, param, code } })
}

const s3Codes: Record<number, string> = {
  400: 'InvalidArgument',
  401: 'AccessDenied',
  403: 'AccessDenied',
  404: 'NoSuchKey',
  412: 'PreconditionFailed',
  413: 'EntityTooLarge',
  429: 'SlowDown',
  503: 'ServiceUnavailable',
}

const xml = (text: string): string =>
  text.replaceAll(/[<>&'"]/g, (c) => `&#${c.charCodeAt(0)};`).replaceAll(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd]/g, '\ufffd')

function s3Code(error: ApiError): string {
  if (error instanceof S3Error) return error.code
  return s3Codes[error.status] ?? (error.status < 500 ? 'InvalidRequest' : 'InternalError')
}

/** The error document of S3 clients: Code, Message, the failure's details, Resource, RequestId. */
function renderS3(error: ApiError, context: { path: string; requestId: string }): RenderedError {
  const code = s3Code(error)
  const details = error instanceof S3Error ? Object.entries(error.details) : []
  const more = details.map(([name, text]) => `<${name}>${xml(text)}</${name}>`).join('')
  return {
    status: error instanceof InvalidToken ? 403 : error.status,
    headers: { ...error.headers, 'content-type': 'application/xml', 'x-amz-request-id': context.requestId },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${xml(error.message)}</Message>${more}<Resource>${xml(context.path)}</Resource><RequestId>${xml(context.requestId)}</RequestId></Error>`,
  }
}

/**
 * Renders any thrown value as a response in one of the four formats. Anything but an ApiError becomes a 500 that reveals nothing
 * of its cause; the caller logs the cause.
 *
 * at.path: the request's path; at.requestId: the X-Request-Id, both for the S3 document only.
 */
export function renderError(
  shape: ErrorShape,
  thrown: unknown,
  context: { path: string; requestId: string },
): RenderedError {
  const error = known(thrown)
  switch (shape) {
    case 'resource':
      return renderResource(error)
    case 'oauth':
      return renderOAuth(error)
    case 'ai-gateway':
      return renderAiGateway(error)
    case 's3':
      return renderS3(error, context)
  }
}
