import { Unavailable } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { readInvitationOf, type ReturnTo } from '../../site/return-to.ts'
import type { Invitation } from '../invitations/invitation.ts'
import type { SignUpSettings } from './settings.ts'

/** Who may create an account in a visit: an invitation admits the address that it names, and no other. */
export type Admission =
  | { kind: 'invited'; email: string }
  | { kind: 'open' }
  | { kind: 'domains'; domains: readonly string[] }
  | { kind: 'closed' }

const domainOf = (email: string): string => email.slice(email.lastIndexOf('@') + 1)

/** Whom a visit admits that leads to an invitation, or to anything else. */
export function admissionBy(
  { policy, domains, invitationDomains }: SignUpSettings,
  invitation: Pick<Invitation, 'email'> | undefined,
): Admission {
  if (invitation && (invitationDomains.length === 0 || invitationDomains.includes(domainOf(invitation.email))))
    return { kind: 'invited', email: invitation.email }
  return policy === 'domains' ? { kind: policy, domains } : { kind: policy }
}

/**
 * Whom a visit that leads to `returnTo` admits. While an invitation cannot be verified, anybody if sign-up is open to everybody, as
 * without an invitation; undefined otherwise.
 */
export async function admissionOf(
  { signUp, verifyInvitation }: Pick<Deps, 'signUp' | 'verifyInvitation'>,
  returnTo: ReturnTo,
): Promise<Admission | undefined> {
  const assertion = readInvitationOf(returnTo)
  try {
    return admissionBy(signUp, assertion === undefined ? undefined : await verifyInvitation(assertion))
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error
    return signUp.policy === 'open' ? { kind: 'open' } : undefined
  }
}

/** True if a normalised address is admitted. */
export function admits(admission: Admission, email: string): boolean {
  if (admission.kind === 'invited') return admission.email === email
  return admission.kind === 'domains' ? admission.domains.includes(domainOf(email)) : admission.kind === 'open'
}
