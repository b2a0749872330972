import { randomBytes } from 'node:crypto'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'

/**
 * `session`: a signed-in browser. `before`: a browser without a session; CSRF tokens of its pages are bound to this cookie.
 * `known`: sealed tickets of the accounts that the browser signed in to before (decision 16).
 */
type CookieName = 'session' | 'before' | 'known'

const shapes: Record<CookieName, RegExp> = {
  session: /^[\w-]{43}$/,
  before: /^[\w-]{43}$/,
  known: /^[\w.~-]{1,4000}$/,
}

/** `__Host-` keeps subdomains from planting a cookie. It needs https, so on plain http the port tells services apart. */
function fullName(deps: Pick<Deps, 'issuer'>, name: CookieName): string {
  const { protocol, port } = new URL(deps.issuer)
  return protocol === 'https:' ? `__Host-${name}` : `${name}_${port || '80'}`
}

/** 256 random bits, as text. */
export const newCookieValue = (): string => randomBytes(32).toString('base64url')

/** The value of a cookie; undefined if it is absent or malformed. */
export function readCookie(c: Ctx, deps: Pick<Deps, 'issuer'>, name: CookieName): string | undefined {
  const wanted = fullName(deps, name)
  for (const part of (c.req.header('cookie') ?? '').split(';')) {
    const equals = part.indexOf('=')
    if (part.slice(0, equals).trim() !== wanted) continue
    const value = part.slice(equals + 1).trim()
    if (shapes[name].test(value)) return value
  }
  return undefined
}

/** Sets a cookie that scripts and other sites cannot read. maxAgeSeconds: undefined lasts as long as the browser, 0 deletes. */
export function setCookie(
  c: Ctx,
  deps: Pick<Deps, 'issuer'>,
  name: CookieName,
  value: string,
  maxAgeSeconds: number | undefined,
): void {
  const secure = deps.issuer.startsWith('https:') ? '; Secure' : ''
  const age = maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`
  c.header('set-cookie', `${fullName(deps, name)}=${value}; Path=/; HttpOnly; SameSite=Lax${secure}${age}`, {
    append: true,
  })
}
