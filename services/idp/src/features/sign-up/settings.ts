/** What the operator decided about new accounts. */
export interface SignUpSettings {
  policy: 'closed' | 'domains' | 'open'
  /** In the form of readMailAddress, as are the next. */
  domains: readonly string[]
  /** Empty: addresses of every domain may be invited. */
  invitationDomains: readonly string[]
  /** Where people ask for an account. */
  supportUrl: string | undefined
}
