/** A signed-in browser: its session, its user, and the cookie's value, to which CSRF tokens are bound. */
export interface Session {
  /** The `sid` of tokens. */
  id: string
  cookie: string
  /** When the user signed in, or used a second factor. */
  authTime: Date
  /** Authentication methods (RFC 8176), separated by spaces. */
  amr: string
  /** The authorization request (SHA-256 of its query) that the user last answered in this session, and the answer. */
  answeredRequest: Buffer | null
  answer: 'signed-in' | 'chose-account' | 'declined-second-factor' | null
  /**
   * True: the cookie outlives the browser, and the session lasts 14 days without a visit. False: until the browser closes, or
   * one day.
   */
  staysSignedIn: boolean
  user: {
    id: string
    email: string
    emailVerified: boolean
    givenName: string | null
    familyName: string | null
    suspendedAt: Date | null
  }
}
