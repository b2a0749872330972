import { type OAuthForm, parseOAuthForm, parseOAuthJson } from '@platform/auth/oauth-form'
import { OAuthError } from '@platform/errors/api-error'
import type { Ctx } from './app.ts'

/** No request of this service comes near it (D52). */
const BODY_BYTES_MAX = 65_536

const invalidRequest = (description: string) => new OAuthError(400, 'invalid_request', description)
const tooLarge = () => invalidRequest(`The body is larger than ${BODY_BYTES_MAX} bytes`)

async function readChunks(c: Ctx): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of (c.req.raw.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > BODY_BYTES_MAX) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

async function readText(c: Ctx): Promise<string> {
  const length = c.req.header('content-length')
  if (length !== undefined && Number(length) > BODY_BYTES_MAX) throw tooLarge()
  try {
    // Sent in chunks the length is known only by counting.
    return await (length === undefined ? readChunks(c) : c.req.text())
  } catch (error) {
    // Nothing but the client breaks a body: its reset is no failure of ours.
    throw error instanceof OAuthError ? error : invalidRequest('The body ended early')
  }
}

const contentType = (c: Ctx): string =>
  (c.req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

const FORM = 'application/x-www-form-urlencoded'

/** The body as form parameters. Throws invalid_request for another content type, a duplicate or a body too large (D23, D72). */
export async function readForm(c: Ctx): Promise<OAuthForm> {
  if (contentType(c) !== FORM) throw invalidRequest(`The content type has to be ${FORM}`)
  return parseOAuthForm(await readText(c))
}

/** The same for the two endpoints that take JSON as well (D23). */
export async function readFormOrJson(c: Ctx): Promise<OAuthForm> {
  const type = contentType(c)
  if (type === FORM) return parseOAuthForm(await readText(c))
  if (type === 'application/json') return parseOAuthJson(await readText(c))
  throw invalidRequest(`The content type has to be ${FORM} or application/json`)
}

/** The body as it came, for authorization requests that are sent by POST. */
export async function readFormText(c: Ctx): Promise<string> {
  if (contentType(c) !== FORM) throw invalidRequest(`The content type has to be ${FORM}`)
  return readText(c)
}

/** True when a form, and not something else or nothing, was sent. */
export const hasForm = (c: Ctx): boolean => contentType(c) === FORM

/** A parameter that has to be there. Throws invalid_request naming it. */
export function requireParameter(form: OAuthForm, name: string): string {
  const value = form.get(name)
  if (value === undefined) throw invalidRequest(`The parameter ${name} is missing`)
  return value
}
