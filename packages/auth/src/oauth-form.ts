import { OAuthError } from '@platform/errors/api-error'

/** Parameters of an OAuth request: each at most once, none empty (RFC 6749 §3.2: an empty one counts as absent). */
export type OAuthForm = ReadonlyMap<string, string>

const invalidRequest = (description: string) => new OAuthError(400, 'invalid_request', description)

/**
 * Reads form parameters. Throws invalid_request for repeated parameters and for NUL or broken UTF-16, which no parameter
 * contains and Postgres rejects.
 */
export function parseOAuthForm(text: string): OAuthForm {
  return uniqueParameters(new URLSearchParams(text))
}

/** Reads the members of a JSON body by the same rules (revoke and device_authorization, D23); ignores non-string members. */
export function parseOAuthJson(text: string): OAuthForm {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw invalidRequest('The body is not valid JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalidRequest('The body is not a JSON object')
  return uniqueParameters(
    Object.entries(body).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

function uniqueParameters(entries: Iterable<readonly [string, string]>): OAuthForm {
  const form = new Map<string, string>()
  const seen = new Set<string>()
  for (const [name, value] of entries) {
    if (seen.has(name))
      throw invalidRequest(`The parameter ${JSON.stringify(name.slice(0, 64))} is sent more than once`)
    seen.add(name)
    if (value.includes('\0') || !value.isWellFormed())
      throw invalidRequest('A parameter holds characters that are not text')
    if (value !== '') form.set(name, value)
  }
  return form
}

/** A client's credentials. `secret` is undefined for a public client. */
export interface ClientCredentials {
  clientId: string
  secret: string | undefined
  method: 'basic' | 'body'
}

/** 401 invalid_client, with a Basic challenge if the client tried Basic (RFC 6749 §5.2, D11). */
export const invalidClient = (method: 'basic' | 'body', description = 'Client authentication failed'): OAuthError =>
  new OAuthError(
    401,
    'invalid_client',
    description,
    method === 'basic' ? { 'www-authenticate': 'Basic realm="oauth2"' } : undefined,
  )

const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '))

function readBasic(encoded: string): ClientCredentials {
  try {
    if (!/^[\w+/-]+={0,2}$/.test(encoded)) throw invalidClient('basic')
    const decoded = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(encoded, 'base64'))
    const colon = decoded.indexOf(':')
    const clientId = formDecode(decoded.slice(0, colon))
    const secret = formDecode(decoded.slice(colon + 1))
    if (colon < 1 || clientId.includes('\0') || secret.includes('\0')) throw invalidClient('basic')
    return { clientId, secret: secret === '' ? undefined : secret, method: 'basic' }
  } catch {
    throw invalidClient('basic') // neither base64 of UTF-8 nor form-encoded: no client authenticates like this
  }
}

/**
 * Reads the client credentials of a token or revocation request: HTTP Basic with form-encoded parts, or client_id and
 * client_secret in the body. Basic wins over the body, including its client_id, and malformed Basic never falls back (B §4, D11).
 *
 * Throws invalid_client if the request names no client.
 */
export function readClientCredentials(authorization: string | undefined, form: OAuthForm): ClientCredentials {
  const basic = /^basic(?= |$)(.*)$/is.exec(authorization ?? '')?.[1]
  if (basic !== undefined) return readBasic(basic.trim())
  const clientId = form.get('client_id')
  if (clientId === undefined) throw invalidClient('body', 'No client_id was sent')
  return { clientId, secret: form.get('client_secret'), method: 'body' }
}
