import { z } from '@hono/zod-openapi'
import type { RouteConfig } from '@hono/zod-openapi'
import { shown } from './fields.ts'

const ErrorBody = z
  .object({
    error: shown('Application not found').openapi({
      description: 'A message for a person. There is no machine-readable code; branch on the status.',
    }),
  })
  .openapi('Error')

const anyJson = z.unknown().openapi({ description: 'A JSON value.' })
const NAME_FAILURE = 'Expected 1 to 255 characters'
const failing = {
  type: z.literal('validation'),
  on: z.enum(['body', 'query', 'params', 'headers']),
  property: z.string().openapi({ description: 'JSON pointer to the field.', example: '/name' }),
  message: shown(`/name: ${NAME_FAILURE}`),
  summary: shown(NAME_FAILURE),
  expected: anyJson.openapi({ example: NAME_FAILURE }),
  found: anyJson.openapi({ example: '' }),
}
const ValidationBody = z
  .object({
    error: shown(`/name: ${NAME_FAILURE}`),
    ...failing,
    errors: z.array(z.object(failing)).openapi({ description: 'One entry per failing field.' }),
  })
  .openapi('ValidationError')

const ThrottleBody = z
  .object({
    error: shown('rate_limit_exceeded'),
    message: shown('Too many requests; try again in 60 seconds').optional(),
  })
  .openapi('ThrottleError')

const AiErrorBody = z
  .object({
    error: z.object({
      message: shown('messages[0].role must be a string'),
      type: shown('invalid_request_error'),
      param: shown('messages[0].role').nullable().openapi({ description: 'The request field that caused the error.' }),
      code: shown('invalid_value').nullable().openapi({ description: 'A code for programs to branch on.' }),
    }),
  })
  .openapi('AiError')

/** The error body of OAuth 2.0 (RFC 6749 §5.2). */
export const OAuthErrorBody = z
  .object({ error: shown('invalid_client'), error_description: shown('Unknown client or wrong secret') })
  .openapi('OAuthError')
const OAuthThrottleBody = z
  .object({
    error: shown('rate_limit_exceeded'),
    error_description: shown('Too many requests; try again in 60 seconds'),
    message: shown('Too many requests; try again in 60 seconds'),
  })
  .openapi('OAuthThrottleError')

const descriptions: Record<number, string> = {
  400: 'Invalid value or malformed body',
  401: 'Missing, expired or unrecognized token',
  402: 'Refused for billing reasons',
  403: 'Missing scope, or no access to the resource',
  404: 'Not found or out of reach',
  408: 'The body did not arrive in time',
  409: 'Conflict with the current state',
  413: 'Request body too large',
  422: 'Validation failed',
  429: 'Too many requests; retry only if Retry-After is present',
  500: 'Unexpected failure',
  503: 'A dependency is temporarily unavailable',
}

/** Example messages by status, where the schema's own example would mislead. */
const examples: Record<number, string> = {
  400: 'The body is not valid JSON',
  401: 'The token has expired',
  402: 'The organization has reached its billing cap',
  403: 'Access denied',
  409: 'An application with this name exists in the organization',
  413: 'The request body is larger than 524288 bytes',
  500: 'Internal error',
  503: 'A dependency is temporarily unavailable; try again later',
}

const header = (description: string) => ({ description, schema: { type: 'string' as const } })
const headers: Record<number, Record<string, ReturnType<typeof header>>> = {
  401: { 'WWW-Authenticate': header('Bearer challenge with error="invalid_token".') },
  429: { 'Retry-After': header('Seconds to wait: 60. Absent if waiting does not help.') },
}
/** Response headers of every operation below a path. */
export const headersBelow = (path: string): Record<string, ReturnType<typeof header>> =>
  path.startsWith('/ai/v1/') ? { 'X-Service-Request-Id': header('The request id.') } : {}
const bodies: Record<number, z.ZodType> = { 422: ValidationBody, 429: ThrottleBody }
const oauthCodes: Record<number, string> = {
  413: 'invalid_request',
  500: 'server_error',
  503: 'temporarily_unavailable',
}

/** The error body, in the format of its path: nested below /ai/v1 (D21), OAuth's at the token endpoint (A §5). */
function failureBody(status: number, path: string): { schema: z.ZodType; example?: object } {
  if (path.startsWith('/ai/v1/')) return { schema: AiErrorBody }
  const message = examples[status]
  if (path !== '/oauth2/token')
    return { schema: bodies[status] ?? ErrorBody, ...(message !== undefined && { example: { error: message } }) }
  const error = oauthCodes[status]
  return {
    schema: status === 429 ? OAuthThrottleBody : OAuthErrorBody,
    ...(error !== undefined && { example: { error, error_description: message } }),
  }
}

/** The documented failures of an operation, by status (A §7). */
export function failureResponses(statuses: readonly number[], path: string): RouteConfig['responses'] {
  const isAi = path.startsWith('/ai/v1/')
  const ordered = statuses.toSorted((a, b) => a - b)
  return Object.fromEntries(
    ordered.map((status) => [
      status,
      {
        description: descriptions[status] ?? 'Failure',
        ...((isAi || headers[status]) && { headers: { ...headersBelow(path), ...headers[status] } }),
        content: { 'application/json': failureBody(status, path) },
      },
    ]),
  )
}
