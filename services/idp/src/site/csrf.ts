import { createHmac, timingSafeEqual } from 'node:crypto'
import { Forbidden } from '@platform/errors/api-error'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import { newCookieValue, readCookie, setCookie } from './cookies.ts'
import type { Session } from './session.ts'

/**
 * A form's CSRF token is a MAC, under a cookie that only this browser holds, of what the form is for. A page of another
 * site knows neither the cookie nor, therefore, the token; and a token for one transaction is none for another.
 */
const tokenOf = (cookie: string, purpose: string): string =>
  createHmac('sha256', cookie).update(purpose).digest('base64url')

/** The token of a form of someone who is signed in. */
export const csrfOfSession = (session: Pick<Session, 'cookie'>, purpose: string): string =>
  tokenOf(session.cookie, purpose)

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

function requireToken(token: string, expected: string): void {
  const sent = Buffer.from(token)
  const wanted = Buffer.from(expected)
  if (sent.length !== wanted.length || !timingSafeEqual(sent, wanted))
    throw new Forbidden('This form is out of date. Open the page again and send it once more')
}

interface SentForm {
  token: string | undefined
  /** What the token is bound to: the session's cookie, or the one before a session. */
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
