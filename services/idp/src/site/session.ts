/** A browser that is signed in: its session, its user, and the cookie's value, to which CSRF tokens are bound. */
export interface Session {
  /** The `sid` of tokens. */
  id: string
  cookie: string
  /** When the user signed in, or showed a second factor. */
  authTime: Date
  /** Authentication methods (RFC 8176), with spaces between them. */
  amr: string
  /** The authorization request (SHA-256 of its query) that the user last answered in it, and what the answer was. */
  answeredRequest: Buffer | null
  answer: 'signed-in' | 'chose-account' | 'declined-second-factor' | null
  /** Whether the browser keeps it after it is closed, and the service for 14 days without a visit instead of one. */
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
