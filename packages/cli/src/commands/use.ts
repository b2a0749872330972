import type { Context } from '../context.ts'
import { CommandFailure, type Outcome, goOn } from '../outcome.ts'
import { nearest } from '../values.ts'

/** Makes another profile the one in use. */
export async function use(context: Context, name: string): Promise<Outcome> {
  const { profiles } = await context.profiles.read()
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (!profile) {
    const names = Object.keys(profiles)
    const meant = nearest(name, names)
    throw new CommandFailure(
      'not_found',
      `There is no profile "${name}": expected ${names.length === 0 ? 'one, and there is none' : names.join(', ')}`,
      {
        ...(meant !== undefined && { next: [goOn(`use "${meant}"`, 'use', meant)] }),
      },
    )
  }
  await context.profiles.change((all) => (all.current = name))
  const isSignedIn = profile.signIn !== undefined
  return {
    data: { profile: name, platform: profile.baseUrl, user: profile.user, isSignedIn },
    text: `Using ${profile.baseUrl} as ${profile.user?.email ?? 'nobody'}`,
  }
}
