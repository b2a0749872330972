import type { Client } from '../clients/client.ts'
import { hasSecondFactor } from './authentication-level.ts'

/** What is known of an account when it is decided whether a client may have it. */
export interface Admissible {
  id: string
  email: string
  emailVerified: boolean
  suspendedAt: Date | null
}

/**
 * Why the client's sign-in policy refuses the user, or undefined. Exact domains of a verified email, or listed users;
 * neither given: everyone. Checked at authorize, approval and redemption (B §5).
 */
export function policyRefusal(client: Client, user: Admissible): string | undefined {
  const { policyDomains, policyUserIds } = client
  const isOpen = policyDomains.length === 0 && policyUserIds.length === 0
  const domain = user.email.slice(user.email.lastIndexOf('@') + 1).toLowerCase()
  const isListed = policyUserIds.includes(user.id) || (user.emailVerified && policyDomains.includes(domain))
  if (!isOpen && !isListed) return 'the sign-in policy of the client does not permit this user'
  return undefined
}

/**
 * True when the client's policy asks for more than was shown. At authorize and approval the person is asked for it then;
 * a grant without it is not redeemed.
 */
export const lacksSecondFactor = (client: Client, amr: string): boolean =>
  client.requiresSecondFactor && !hasSecondFactor(amr)

/**
 * Why tokens may not be issued for the user now, or undefined: suspension, policy, product access (B §5, D60).
 *
 * withdrawnProduct: the client's required product, when it was taken from the user (D69).
 */
export function redemptionRefusal(
  client: Client,
  user: Admissible,
  amr: string,
  withdrawnProduct: string | null,
): string | undefined {
  if (user.suspendedAt) return 'the account is suspended'
  const refusal = policyRefusal(client, user)
  if (refusal !== undefined) return refusal
  if (lacksSecondFactor(client, amr)) return 'the client requires a second factor'
  if (withdrawnProduct !== null) return `access to the product ${withdrawnProduct} was withdrawn`
  return undefined
}
