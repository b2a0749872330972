import { type OAuthForm, parseOAuthForm, parseOAuthJson } from '@platform/auth/oauth-form'
import { ApiError, OAuthError } from '@platform/errors/api-error'
import { mediaType, readBody } from '@platform/service/read-body'
import type { Ctx } from './app.ts'

/** No request of this service comes near it (D52). */
const BODY_BYTES_MAX = 65_536

const invalidRequest = (description: string) => new OAuthError(400, 'invalid_request', description)

async function readText(c: Ctx): Promise<string> {
  try {
    return new TextDecoder().decode(await readBody(c.env.incoming, BODY_BYTES_MAX))
  } catch (error) {
    throw error instanceof ApiError ? invalidRequest(error.message) : error
  }
}

const contentType = (c: Ctx): string => mediaType(c.env.incoming)

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
