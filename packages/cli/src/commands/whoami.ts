import type { Context } from '../context.ts'
import { CommandFailure, type Outcome, goOn } from '../outcome.ts'

/** Who is signed in, as the file of sign-ins knows it: no request is made for a person. */
export async function whoami(context: Context): Promise<Outcome> {
  const identity = await context.identity()
  const { kind, baseUrl } = identity
  if (kind !== 'user') {
    const { applicationOfKey } = await import('../places.ts')
    const applicationId = (await applicationOfKey(context)) ?? null
    const key = kind === 'key' ? { id: identity.id } : null
    const who = key ? `the API key ${key.id} of the application ${applicationId}` : 'the bearer of PLATFORM_TOKEN'
    const data = { profile: null, platform: baseUrl, user: null, key, applicationId, scopes: null, isSignedIn: true }
    return { data, text: `${baseUrl} as ${who}` }
  }
  const { profiles } = await context.profiles.read()
  const profile = profiles[identity.profile]
  if (!profile?.signIn)
    throw new CommandFailure('sign_in_needed', `Nobody is signed in at ${baseUrl}`, {
      next: [goOn('sign in', 'login', '--url', baseUrl)],
    })
  const { user, signIn } = profile
  const data = {
    profile: identity.profile,
    platform: baseUrl,
    user,
    key: null,
    applicationId: null,
    scopes: signIn.scope?.split(' ') ?? [],
    isSignedIn: true,
  }
  const others = Object.keys(profiles).filter((name) => name !== identity.profile)
  const text = [
    `${baseUrl} as ${user?.email ?? user?.id ?? 'somebody'}, profile ${identity.profile}`,
    ...(others.length > 0 ? [`Other profiles: ${others.join(', ')}`] : []),
  ]
  return { data, text: text.join('\n') }
}
