import type { OAuthForm } from '@platform/auth/oauth-form'
import type { Deps } from '../../deps.ts'
import type { Client, UnprovenClient } from '../clients/client.ts'
import type { TokenResponse } from './issue-tokens.ts'

/** A token request whose grant type is known. Each grant reads its own row and the client's in one statement. */
interface GrantRequest {
  deps: Deps
  form: OAuthForm
  /** As the request names it; a well-formed UUID, or the nil UUID that no client has. */
  clientId: string
  /**
   * Proves the client that was read, and that it may use this grant. Comes before anything is said about the grant
   * itself (D72). Throws invalid_client or unauthorized_client.
   */
  admit(unproven: UnprovenClient | undefined): Client
}

export type RedeemGrant = (request: GrantRequest) => Promise<TokenResponse>
