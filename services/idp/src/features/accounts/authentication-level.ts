/** Authentication levels: `aal2` once a second factor was used, else `aal1` (the levels of NIST SP 800-63). */
export const acrValues = ['aal1', 'aal2'] as const
type Acr = (typeof acrValues)[number]

/** amr: RFC 8176 names, separated by spaces. */
export const hasSecondFactor = (amr: string): boolean => amr.split(' ').includes('mfa')

export const acrOf = (amr: string): Acr => (hasSecondFactor(amr) ? 'aal2' : 'aal1')

/** Merges the methods of a sign-in with those used since, each once. */
export const withMore = (amr: string, more: string): string =>
  [...new Set([...amr.split(' '), ...more.split(' ')])].join(' ')

/** The first known value of `acr_values`, which come in order of preference (OIDC Core §3.1.2.1). */
export const readAcrValues = (text: string): Acr | undefined =>
  text.split(' ').find((value): value is Acr => (acrValues as readonly string[]).includes(value))
