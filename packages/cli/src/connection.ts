import { apiKey, type Credential, Platform, staticToken, userToken } from '@platform/sdk'
import { CommandFailure, refuse, goOn } from './outcome.ts'
import type { Output } from './output.ts'
import { checkProfileName, type Profile, type ProfileFile } from './profiles.ts'
import type { World } from './world.ts'

const ISSUER_MS = 10_000
const DEFAULT_URL = 'http://localhost:4000'

/** Which platform, and as whom. */
export type Identity =
  | { kind: 'user'; profile: string; baseUrl: string; isSignedIn: boolean }
  | { kind: 'key'; id: string; secret: string; baseUrl: string }
  | { kind: 'token'; token: string; baseUrl: string }

/** What the environment holds comes before the profile in use, unless a profile is named. */
export function kindOf(
  { PLATFORM_TOKEN, PLATFORM_CLIENT_ID, PLATFORM_CLIENT_SECRET }: World['env'],
  profile: string | undefined,
): Identity['kind'] {
  if (profile !== undefined) return 'user'
  if (PLATFORM_TOKEN) return 'token'
  return PLATFORM_CLIENT_ID || PLATFORM_CLIENT_SECRET ? 'key' : 'user'
}

/** The address of a platform, without a slash at its end. Throws a failure for anything else. */
function checkAddress(address: string, source: string): string {
  if (!URL.canParse(address) || !/^https?:$/.test(new URL(address).protocol))
    refuse(`${source} is not a platform's address: expected one such as ${DEFAULT_URL}, found "${address}"`)
  const { username, password, search, hash, href } = new URL(address)
  if (username || password || search || hash)
    refuse(`${source} has more than an address: expected one such as ${DEFAULT_URL}`)
  return href.replace(/\/+$/, '')
}

/** Where a platform lies: the flag's, the environment's or the profile's in use; never one that a project folder names. */
export async function identify(
  world: World,
  file: ProfileFile,
  flags: { url?: string | undefined; profile?: string | undefined },
): Promise<Identity> {
  const { PLATFORM_API_URL, PLATFORM_TOKEN = '', PLATFORM_CLIENT_ID, PLATFORM_CLIENT_SECRET } = world.env
  const [address, source] =
    flags.url === undefined ? [PLATFORM_API_URL || undefined, 'PLATFORM_API_URL'] : [flags.url, '--url']
  const url = address === undefined ? undefined : checkAddress(address, source)

  const kind = kindOf(world.env, flags.profile)
  if (kind === 'token') return { kind, token: PLATFORM_TOKEN, baseUrl: url ?? (await currentUrl(file)) }
  if (kind === 'key') {
    const missing = PLATFORM_CLIENT_ID ? 'PLATFORM_CLIENT_SECRET' : 'PLATFORM_CLIENT_ID'
    if (!PLATFORM_CLIENT_ID || !PLATFORM_CLIENT_SECRET)
      refuse(`${missing} is missing: an API key is both its id and its secret`)
    const baseUrl = url ?? (await currentUrl(file))
    return { kind, id: PLATFORM_CLIENT_ID, secret: PLATFORM_CLIENT_SECRET, baseUrl }
  }
  const { current, profiles } = await file.read()
  const known = flags.profile ?? nameFor(url, current, profiles)
  const name = checkProfileName(known ?? freeName(url ?? DEFAULT_URL, profiles))
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  const baseUrl = url ?? profile?.baseUrl ?? DEFAULT_URL
  if (profile && profile.baseUrl !== baseUrl)
    refuse(`The profile "${name}" belongs to ${profile.baseUrl}, not to ${baseUrl}`, {
      hint: 'Leave out one of them, or take another profile.',
    })
  return { kind: 'user', profile: name, baseUrl, isSignedIn: profile?.signIn !== undefined }
}

const currentUrl = async (file: ProfileFile): Promise<string> => {
  const { current, profiles } = await file.read()
  return (current !== null && profiles[current]?.baseUrl) || DEFAULT_URL
}

/** The profile in use; for another address, one that belongs there. */
function nameFor(
  url: string | undefined,
  current: string | null,
  profiles: Record<string, Profile>,
): string | undefined {
  const inUse = current === null ? undefined : profiles[current]
  if (inUse && (url === undefined || inUse.baseUrl === url)) return current ?? undefined
  return Object.keys(profiles).find((name) => url !== undefined && profiles[name]?.baseUrl === url)
}

const freeName = (url: string, profiles: Record<string, Profile>): string => {
  const { hostname, port } = new URL(url)
  const name = hostname.replace(/[^\w.-]/g, '') + (port && `-${port}`)
  return Object.hasOwn(profiles, 'default') ? name : 'default'
}

/**
 * A fetch that tells what is asked and answered, and gives up on a platform whose first answer does not come. giveUp: ends the
 * command, since the SDK would try again. onFailure: told of each request without an answer.
 * patienceSeconds: how long a rate limit may ask to wait.
 */
export function watchedFetch(
  world: World,
  output: Output,
  {
    isVerbose,
    giveUp,
    onFailure,
    patienceSeconds,
  }: {
    isVerbose: boolean
    giveUp: (failure: CommandFailure) => void
    onFailure: (origin: string) => void
    patienceSeconds: () => number
  },
): typeof fetch {
  const startedAt = new Map<string, number>()
  const answered = new Set<string>()
  return async (input, init) => {
    // The SDK gives a text; what else there is stays out of messages.
    const { origin, pathname } = new URL(input as string)
    const began = performance.now()
    const tell = (outcome: string) => {
      if (isVerbose)
        output.warn(`${init?.method ?? 'GET'} ${pathname} ${outcome} ${Math.round(performance.now() - began)} ms`)
    }
    const first = startedAt.get(origin) ?? began
    startedAt.set(origin, first)
    let timer: NodeJS.Timeout | undefined
    if (!answered.has(origin))
      timer = setTimeout(
        () => {
          if (answered.has(origin)) return
          const within = `within ${Math.round(world.firstAnswerMs / 1_000)} s`
          giveUp(
            new CommandFailure('unreachable', `${origin} has not answered ${within}`, {
              hint: 'Check the address, and that the platform runs.',
            }),
          )
        },
        Math.max(0, first + world.firstAnswerMs - began),
      )
    try {
      const answer = await world.fetch(input, init)
      answered.add(origin)
      tell(`${answer.status} ${answer.headers.get('x-request-id') ?? '-'}`)
      const seconds = answer.status === 429 ? Number(answer.headers.get('retry-after') ?? 0) : 0
      if (seconds > patienceSeconds())
        giveUp(
          new CommandFailure('limit_reached', `Too many requests: ${origin} asks to wait ${seconds} s`, {
            data: { status: 429, retryAfterSeconds: seconds },
          }),
        )
      else if (seconds > 0) output.note(`Too many requests: going on in ${seconds} s`)
      return answer
    } catch (error) {
      const { cause } = error as { cause?: { code?: string } }
      tell(cause?.code ?? 'no answer')
      onFailure(origin)
      // Nothing listens, or there is no such host: it will not be there in a moment.
      if (!answered.has(origin) && (cause?.code === 'ECONNREFUSED' || cause?.code === 'ENOTFOUND'))
        giveUp(
          new CommandFailure(
            'unreachable',
            `${origin} cannot be reached: ${cause.code === 'ENOTFOUND' ? 'there is no such host' : 'nothing listens there'}`,
            {
              hint: 'Check the address, and that the platform runs.',
            },
          ),
        )
      throw error
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Whether a platform still names the identity provider. True where it does not answer: the renewal will say why. */
async function isIssuer(
  baseUrl: string,
  issuer: string,
  { fetch, signal }: { fetch: typeof globalThis.fetch; signal: AbortSignal },
): Promise<boolean> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(ISSUER_MS)])
  const servers = await fetch(`${baseUrl}/.well-known/oauth-protected-resource`, { signal: within, redirect: 'error' })
    .then(async (answer) => ((await answer.json()) as { authorization_servers?: string[] }).authorization_servers)
    .catch(() => undefined)
  signal.throwIfAborted()
  return servers?.includes(issuer) ?? true
}

/** The platform as the identity speaks to it. Throws a failure if nobody is signed in. */
export async function connect(
  identity: Identity,
  { file, fetch, signal }: { file: ProfileFile; fetch: typeof globalThis.fetch; signal: AbortSignal },
): Promise<Platform> {
  const { baseUrl } = identity
  const of = (credential: Credential) => new Platform({ baseUrl, credential, fetch })
  if (identity.kind === 'key') return of(apiKey({ id: identity.id, secret: identity.secret }))
  if (identity.kind === 'token') return of(staticToken(identity.token))
  const signIn = (await file.read()).profiles[identity.profile]?.signIn
  if (!signIn)
    throw new CommandFailure('sign_in_needed', `Nobody is signed in at ${baseUrl}`, {
      next: [goOn('sign in', 'login', '--url', baseUrl)],
    })
  const platform = of(userToken({ store: file.store(identity.profile) }))
  // About to be renewed: by the identity provider that the platform names today, or nobody.
  if (signIn.expiresAt <= Date.now()) {
    if (!(await isIssuer(baseUrl, signIn.issuer, { fetch, signal }))) {
      await file.change(({ profiles }) => delete profiles[identity.profile]?.signIn)
      throw new CommandFailure(
        'sign_in_needed',
        `Signed out: ${baseUrl} has another identity provider now, and the sign-in was one of ${signIn.issuer}`,
        { next: [goOn('sign in', 'login', '--url', baseUrl)] },
      )
    }
  }
  return platform
}
