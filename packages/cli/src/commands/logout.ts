import { PlatformError } from '@platform/sdk'
import { signOut } from '@platform/sdk/sign-in'
import type { Context } from '../context.ts'
import { interrupted } from '../interrupted.ts'
import { type Outcome, refuse } from '../outcome.ts'

/** Revokes the sign-in of a profile. On this machine it has ended even if the identity provider cannot be reached. */
export async function logout(context: Context): Promise<Outcome> {
  const { profiles: file, fetch, signal, output } = context
  const identity = await context.identity()
  if (identity.kind !== 'user') refuse('There is nothing to sign out of: a credential of the environment is used')
  const { profile, baseUrl, isSignedIn } = identity
  let isRevoked = true
  try {
    await signOut({ store: file.store(profile), fetch, signal })
  } catch (error) {
    const isUnreached = error instanceof PlatformError || context.signal.aborted
    if (!isUnreached) throw error
    isRevoked = false
    output.warn('The identity provider could not be told: end the session on its account page')
  }
  await file.change((all) => {
    const known = all.profiles[profile]
    if (known) Object.assign(known, { begun: undefined, user: null })
  })
  const { signal: interruption } = context.world
  if (interruption.aborted)
    throw interrupted(interruption, 'Interrupted: the sign-in is forgotten on this machine alone')
  const text = isSignedIn ? `Signed out of ${baseUrl}` : `Nobody was signed in at ${baseUrl}`
  return { data: { profile, platform: baseUrl, wasSignedIn: isSignedIn, isRevoked: isSignedIn && isRevoked }, text }
}
