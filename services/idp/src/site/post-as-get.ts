import { OAuthError } from '@platform/errors/api-error'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import { readFormText } from '../http/body.ts'
import { redirect } from './navigation.ts'

/** The longest query that every server accepts in a request line. */
const QUERY_LENGTH_MAX = 8_192

/**
 * Redirects a POST from another site to the same request as a GET, since such a POST carries no session cookie. Throws
 * invalid_request if the body is not a form, or is too long for a URL.
 */
export async function redirectPostAsGet(c: Ctx, { issuer }: Pick<Deps, 'issuer'>, path: string): Promise<Response> {
  const query = new URLSearchParams(await readFormText(c)).toString()
  if (query.length > QUERY_LENGTH_MAX) throw new OAuthError(400, 'invalid_request', 'The request is too long')
  return redirect(c, `${issuer}${path}?${query}`)
}
