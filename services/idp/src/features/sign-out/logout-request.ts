import { BadRequest } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { type IdTokenHint, readIdTokenHint } from '../authorize/id-token-hint.ts'
import { type AuthorizeParameters, readAuthorizeParameters } from '../authorize/parameters.ts'
import { type Client, findClient, namedClient } from '../clients/client.ts'

/** What a client asks for when it sends a browser here to be signed out, or what the account site asks for: nothing. */
export interface LogoutRequest {
  /** The query it came with, `?` included; empty when no client stands behind it. */
  search: string
  client: Client | undefined
  hint: IdTokenHint | undefined
  /** A registered URI of the client, with the state; undefined: the browser stays here. */
  redirectUri: string | undefined
}

/** What is read. Anything else is ignored, logout_hint and ui_locales too: there is one session and one language. */
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
 * Judges a request of a client to sign its user out (OpenID Connect RP-Initiated Logout 1.0 §2, §3). An ID token of ours
 * counts however old it is. Throws BadRequest for whatever is wrong: such a request ends no session and leads nowhere.
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
