import { OAuthError } from '@platform/errors/api-error'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import { readFormText } from '../http/body.ts'
import { redirect } from './navigation.ts'

/** The longest query that is still a request line which everyone takes. */
const QUERY_LENGTH_MAX = 8_192

/**
 * Answers the POST of another site with the same request as a GET: a POST from there carries no session cookie.
 * Throws invalid_request for what is no form, or too long for a URL.
 */
export async function redirectPostAsGet(c: Ctx, { issuer }: Pick<Deps, 'issuer'>, path: string): Promise<Response> {
  const query = new URLSearchParams(await readFormText(c)).toString()
  if (query.length > QUERY_LENGTH_MAX) throw new OAuthError(400, 'invalid_request', 'The request is too long')
  return redirect(c, `${issuer}${path}?${query}`)
}
