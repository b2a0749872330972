import type { Sender } from '../sender.ts'

export interface TokenRequest {
  /** Ends the wait of this call, not a renewal that others wait for too. */
  signal?: AbortSignal
  /** A token that the platform has refused. Answered again, it is the last: the refusal stands. */
  refused?: string | undefined
}

/** What a Platform sends requests with. Its members reveal no secret, whatever prints them. */
export interface Credential {
  /** Of the first Platform that took it. No other platform may: its token would go to a stranger. */
  baseUrl?: string
  /** Called by each Platform. The function that it returns resolves to an access token. */
  bind(platform: Sender): (request: TokenRequest) => Promise<string>
}
