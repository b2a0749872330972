import { createHmac, timingSafeEqual } from 'node:crypto'
import type { OAuthForm } from '@platform/auth/oauth-form'
import { Forbidden } from '@platform/errors/api-error'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import { newCookieValue, readCookie, setCookie } from './cookies.ts'

/**
 * A form's CSRF token is a MAC, under a cookie that only this browser holds, of what the form is for. A page of another
 * site knows neither the cookie nor, therefore, the token; and a token for one transaction is none for another.
 */
const tokenOf = (cookie: string, purpose: string): string =>
  createHmac('sha256', cookie).update(purpose).digest('base64url')

/** The token of a form of someone who is signed in. */
export const csrfOfSession = (session: { cookie: string }, purpose: string): string => tokenOf(session.cookie, purpose)

/** The cookie that forms before a session are bound to; a browser without one is given it, once in an answer. */
export function cookieBeforeSession(c: Ctx, deps: Pick<Deps, 'issuer'>): string {
  const held = readCookie(c, deps, 'before') ?? c.get('cookieBefore')
  if (held !== undefined) return held
  const cookie = newCookieValue()
  c.set('cookieBefore', cookie)
  setCookie(c, deps, 'before', cookie, undefined)
  return cookie
}

/** The token of a form that comes before a session; gives the browser the cookie it is bound to. */
export const csrfBeforeSession = (c: Ctx, deps: Pick<Deps, 'issuer'>, purpose: string): string =>
  tokenOf(cookieBeforeSession(c, deps), purpose)

function requireOwnOrigin(c: Ctx, { issuer }: Pick<Deps, 'issuer'>): void {
  const origin = c.req.header('origin')
  const site = c.req.header('sec-fetch-site')
  // Browsers send both with a form; a program that sends neither holds no cookie of anyone else's.
  if ((origin !== undefined && origin !== issuer) || (site !== undefined && site !== 'same-origin'))
    throw new Forbidden('This form was not sent by a page of this site')
}

function requireToken(form: OAuthForm, expected: string | undefined): void {
  const given = Buffer.from(form.get('csrf') ?? '')
  const wanted = Buffer.from(expected ?? '')
  if (expected === undefined || given.length !== wanted.length || !timingSafeEqual(given, wanted))
    throw new Forbidden('This form is out of date. Open the page again and send it once more')
}

/** Throws Forbidden unless the form comes from a page of ours in this very session, for this purpose. */
export function requireCsrfOfSession(
  c: Ctx,
  deps: Deps,
  form: OAuthForm,
  session: { cookie: string },
  purpose: string,
): void {
  requireOwnOrigin(c, deps)
  requireToken(form, csrfOfSession(session, purpose))
}

/** The same for a form that comes before a session. */
export function requireCsrfBeforeSession(c: Ctx, deps: Deps, form: OAuthForm, purpose: string): void {
  requireOwnOrigin(c, deps)
  const cookie = readCookie(c, deps, 'before')
  requireToken(form, cookie && tokenOf(cookie, purpose))
}
