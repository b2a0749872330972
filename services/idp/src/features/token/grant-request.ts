import type { OAuthForm } from '@platform/auth/oauth-form'
import type { Deps } from '../../deps.ts'
import type { Client, UnprovenClient } from '../clients/client.ts'
import type { TokenResponse } from './issue-tokens.ts'

/** A token request with a known grant type. Each grant reads its own row and the client's in one statement. */
interface GrantRequest {
  deps: Deps
  form: OAuthForm
  /** The client id of the request; a well-formed UUID, or the nil UUID, which no client has. */
  clientId: string
  /**
   * Authenticates the client, and checks that it may use this grant. Called before any answer about the grant itself (D72).
   * Throws invalid_client or unauthorized_client.
   */
  admit(unproven: UnprovenClient | undefined): Client
}

export type RedeemGrant = (request: GrantRequest) => Promise<TokenResponse>
