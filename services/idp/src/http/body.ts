import { type OAuthForm, parseOAuthForm, parseOAuthJson } from '@platform/auth/oauth-form'
import { ApiError, OAuthError } from '@platform/errors/api-error'
import { mediaType, readBody } from '@platform/service/read-body'
import type { Ctx } from './app.ts'

/** No legitimate request comes near it (D52). */
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

/**
 * Reads the body as form parameters. Throws invalid_request for another content type, a duplicate or a body too large (D23,
 * D72).
 */
export async function readForm(c: Ctx): Promise<OAuthForm> {
  if (contentType(c) !== FORM) throw invalidRequest(`The content type has to be ${FORM}`)
  return parseOAuthForm(await readText(c))
}

/** Like readForm, for the two endpoints that accept JSON as well (D23). */
export async function readFormOrJson(c: Ctx): Promise<OAuthForm> {
  const type = contentType(c)
  if (type === FORM) return parseOAuthForm(await readText(c))
  if (type === 'application/json') return parseOAuthJson(await readText(c))
  throw invalidRequest(`The content type has to be ${FORM} or application/json`)
}

/** The unparsed form body, for authorization requests sent by POST. */
export async function readFormText(c: Ctx): Promise<string> {
  if (contentType(c) !== FORM) throw invalidRequest(`The content type has to be ${FORM}`)
  return readText(c)
}

/** True if the body is a form, rather than something else or empty. */
export const hasForm = (c: Ctx): boolean => contentType(c) === FORM

/** Returns a required parameter. Throws invalid_request naming it if it is missing. */
export function requireParameter(form: OAuthForm, name: string): string {
  const value = form.get(name)
  if (value === undefined) throw invalidRequest(`The parameter ${name} is missing`)
  return value
}
