import type { Deps } from '../../deps.ts'
import { hashRequest, type ReturnTo } from '../../site/return-to.ts'
import { type Client, findClient, namedClient } from '../clients/client.ts'
import { formActionSource, isRegisteredRedirectUri } from '../clients/redirect-uri.ts'
import { readAuthorizeParameters } from './parameters.ts'

/** The client that requested the sign-in, if the request names an existing one and its redirect URI. */
export async function findWaitingClient(
  deps: Deps,
  returnTo: ReturnTo,
): Promise<{ client: Client; redirectUri: string } | undefined> {
  if (returnTo.kind !== 'authorize') return undefined
  const parameters = readAuthorizeParameters(returnTo.search)
  const redirectUri = parameters.get('redirect_uri')
  const client = namedClient(await findClient(deps, parameters.get('client_id') ?? ''))
  if (!client || redirectUri === undefined || !isRegisteredRedirectUri(client.redirectUris, redirectUri))
    return undefined
  return { client, redirectUri }
}

/** Where redirects after a form of the sign-in may end, as a CSP source. */
export async function formActionOf(deps: Deps, returnTo: ReturnTo): Promise<string | undefined> {
  const waiting = await findWaitingClient(deps, returnTo)
  return waiting && formActionSource(waiting.redirectUri)
}

/** The hash of the authorization request that a sign-in answers; null for an account page. */
export const answeredRequestOf = (returnTo: ReturnTo): Buffer | null =>
  returnTo.kind === 'authorize' ? hashRequest(returnTo.search) : null
