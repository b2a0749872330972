import type { Client } from '../clients/client.ts'
import { hasSecondFactor } from './authentication-level.ts'

/** The columns of an account that decide whether a client may sign it in. */
export interface Admissible {
  id: string
  email: string
  emailVerified: boolean
  suspendedAt: Date | null
}

/**
 * Why the client's sign-in policy refuses the user, or undefined. The policy lists exact domains of a verified email, or
 * users; without either it admits everyone. Checked at authorize, approval and redemption (B §5).
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
 * True if the client's policy requires a second factor that was not used. At authorize and approval the user is asked for it;
 * a grant without it is not redeemed.
 */
export const lacksSecondFactor = (client: Client, amr: string): boolean =>
  client.requiresSecondFactor && !hasSecondFactor(amr)

/**
 * Why tokens may not be issued for the user now, or undefined: suspension, policy, product access (B §5, D60).
 *
 * withdrawnProduct: the client's required product, if it was withdrawn from the user (D69).
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
