import { BadRequest } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { type IdTokenHint, readIdTokenHint } from '../authorize/id-token-hint.ts'
import { type AuthorizeParameters, readAuthorizeParameters } from '../authorize/parameters.ts'
import { type Client, findClient, namedClient } from '../clients/client.ts'

/** A client's request to sign its user out, or an empty one from the account site. */
export interface LogoutRequest {
  /** The query of the request, including `?`; empty without a client. */
  search: string
  client: Client | undefined
  hint: IdTokenHint | undefined
  /** A registered URI of the client, with the state; undefined: the browser stays here. */
  redirectUri: string | undefined
}

/** Parameters that are read. Others are ignored, including logout_hint and ui_locales: there is one session and one language. */
const read = ['id_token_hint', 'client_id', 'post_logout_redirect_uri', 'state']

function refuseWhatIsUnclear(parameters: AuthorizeParameters): void {
  for (const name of read) {
    if (parameters.isDuplicate(name)) throw new BadRequest(`The parameter ${name} is sent more than once`)
    if (!parameters.isText(name)) throw new BadRequest(`The parameter ${name} is not text`)
  }
}

function withState(uri: string, state: string | undefined): string {
  if (state === undefined) return uri
  return `${uri}${uri.includes('?') ? '&' : '?'}${new URLSearchParams({ state }).toString()}`
}

/**
 * Checks a client's request to sign its user out (OpenID Connect RP-Initiated Logout 1.0 §2, §3). An ID token of ours counts
 * however old it is. Throws BadRequest if anything is wrong: such a request ends no session and redirects nowhere.
 *
 * search: the query with its `?`; empty for a request of our own pages.
 */
export async function checkLogoutRequest(deps: Deps, search: string): Promise<LogoutRequest> {
  const parameters = readAuthorizeParameters(search)
  refuseWhatIsUnclear(parameters)

  const idToken = parameters.get('id_token_hint')
  const hint = idToken === undefined ? undefined : await readIdTokenHint(deps, idToken)
  if (idToken !== undefined && !hint) throw new BadRequest('The id_token_hint is not an ID token of this service')

  const clientId = parameters.get('client_id')
  if (hint && clientId !== undefined && clientId.toLowerCase() !== hint.clientId)
    throw new BadRequest('The id_token_hint was issued to another client than client_id')
  const client = namedClient(await findClient(deps, clientId ?? hint?.clientId ?? ''))
  if (!client && clientId !== undefined) throw new BadRequest('The client_id is unknown')

  const uri = parameters.get('post_logout_redirect_uri')
  if (uri !== undefined && !client?.postLogoutRedirectUris.includes(uri))
    throw new BadRequest('The post_logout_redirect_uri is not registered for this client')
  return { search, client, hint, redirectUri: uri && withState(uri, parameters.get('state')) }
}
