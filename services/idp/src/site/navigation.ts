import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import type { ReturnTo } from './return-to.ts'

/** An uncacheable redirect. After a POST it is 303, so that the next request is certain to be a GET. */
export function redirect(c: Ctx, location: string): Response {
  c.header('cache-control', 'no-store')
  c.header('location', location)
  return c.body(null, c.req.method === 'POST' ? 303 : 302)
}

/** Redirects to the sign-in page, which leads back to where the user wanted to be. */
export const redirectToSignIn = (c: Ctx, { accountUrl }: Pick<Deps, 'accountUrl'>, returnTo: ReturnTo): Response =>
  redirect(c, `${accountUrl}/sign-in?returnTo=${encodeURIComponent(returnTo.url)}`)

/** Redirects to the second-factor page, which leads back as well. */
export const redirectToStepUp = (c: Ctx, { accountUrl }: Pick<Deps, 'accountUrl'>, returnTo: ReturnTo): Response =>
  redirect(c, `${accountUrl}/second-factor?returnTo=${encodeURIComponent(returnTo.url)}`)
