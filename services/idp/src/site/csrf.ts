import { createHmac, timingSafeEqual } from 'node:crypto'
import { Forbidden } from '@platform/errors/api-error'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import { newCookieValue, readCookie, setCookie } from './cookies.ts'
import type { Session } from './session.ts'

/**
 * A form's CSRF token is a MAC of the form's purpose, keyed with a cookie that only this browser holds. A page of another
 * site does not know the cookie, so it cannot know the token; a token for one transaction is invalid for another.
 */
const tokenOf = (cookie: string, purpose: string): string =>
  createHmac('sha256', cookie).update(purpose).digest('base64url')

/** The CSRF token of a form within a session. */
export const csrfOfSession = (session: Pick<Session, 'cookie'>, purpose: string): string =>
  tokenOf(session.cookie, purpose)

/** The cookie that forms before a session are bound to. Sets it if the browser has none, once per answer. */
export function cookieBeforeSession(c: Ctx, deps: Pick<Deps, 'issuer'>): string {
  const held = readCookie(c, deps, 'before') ?? c.get('cookieBefore')
  if (held !== undefined) return held
  const cookie = newCookieValue()
  c.set('cookieBefore', cookie)
  setCookie(c, deps, 'before', cookie, undefined)
  return cookie
}

/** The CSRF token of a form before a session. Sets the cookie that it is bound to, if missing. */
export const csrfBeforeSession = (c: Ctx, deps: Pick<Deps, 'issuer'>, purpose: string): string =>
  tokenOf(cookieBeforeSession(c, deps), purpose)

function requireOwnOrigin(c: Ctx, { issuer }: Pick<Deps, 'issuer'>): void {
  const origin = c.req.header('origin')
  const site = c.req.header('sec-fetch-site')
  // Browsers send both with a form; a program that sends neither does not hold anybody else's cookie.
  if ((origin !== undefined && origin !== issuer) || (site !== undefined && site !== 'same-origin'))
    throw new Forbidden('This form was not sent by a page of this site')
}

function requireToken(token: string, expected: string): void {
  const sent = Buffer.from(token)
  const wanted = Buffer.from(expected)
  if (sent.length !== wanted.length || !timingSafeEqual(sent, wanted))
    throw new Forbidden('This form is out of date. Open the page again and send it once more')
}

interface SentForm {
  token: string | undefined
  /** The cookie that the token is bound to: the session's, or the one before a session. */
  cookie: string | undefined
  purpose: string
}

/** Throws Forbidden unless the form comes from a page of ours in this very browser, for this purpose. */
export function requireCsrf(c: Ctx, deps: Pick<Deps, 'issuer'>, { token, cookie, purpose }: SentForm): void {
  requireOwnOrigin(c, deps)
  if (cookie === undefined)
    throw new Forbidden(
      'Your browser sent no cookie of this site along. Allow cookies for this site, then open the page again and send the form once more',
    )
  requireToken(token ?? '', tokenOf(cookie, purpose))
}
