import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { memoryStore, PlatformError, type StoredToken, type TokenStore } from '@platform/sdk'
import {
  beginCodeSignIn,
  beginDeviceSignIn,
  type DeviceSignIn,
  finishCodeSignIn,
  finishDeviceSignIn,
  signOut,
  userInfo,
} from '@platform/sdk/sign-in'
import type { Context } from '../context.ts'
import { interrupted } from '../interrupted.ts'
import { CommandFailure, goOn, type Next, type Outcome, refuse } from '../outcome.ts'
import { scopesToAskFor } from '../scopes.ts'

/** The command line's, at every installation. On loopback its port is free (RFC 8252 §7.3). */
const CLIENT_ID = '0198c0de-0000-7000-8000-0000000000c1'

interface LoginOptions {
  browser: boolean
  scope?: readonly string[] | undefined
  readOnly: boolean
  open: boolean
  resume: boolean
}

/** Signs a person in. */
export async function login(context: Context, options: LoginOptions): Promise<Outcome> {
  const identity = await context.identity()
  if (identity.kind !== 'user')
    refuse(
      `${identity.kind === 'key' ? 'PLATFORM_CLIENT_ID' : 'PLATFORM_TOKEN'} is set, and would be used instead of a sign-in`,
      {
        hint: 'Unset it, or name a --profile.',
      },
    )
  const { profile, baseUrl } = identity
  const more = (options.scope ?? []).flatMap((each) => each.split(/\s+/)).filter((each) => each !== '')
  const writing = more.find((scope) => !scope.endsWith(':read'))
  if (options.readOnly && writing !== undefined)
    refuse(`--read-only asks for read scopes only, and ${writing} is not one`)
  if (options.browser && options.resume) refuse('--resume finishes a sign-in by code, and --browser begins another one')
  const scopes = scopesToAskFor({ readOnly: options.readOnly, more })
  const flags = [...(options.readOnly ? ['--read-only'] : []), ...more.flatMap((scope) => ['--scope', scope])]
  const again = (when: string): Next => goOn(when, 'login', ...flags)
  let earlier: StoredToken | undefined
  const store = context.profiles.storeAnew(profile, (replaced) => (earlier = replaced))
  const at = { profile, baseUrl, store, scopes, more, again, open: options.open }
  try {
    if (options.resume) await resume(context, at)
    else if (options.browser) await signInByBrowser(context, at)
    else await signInByCode(context, at)
  } catch (error) {
    throw explainSignIn(context, at, error)
  }
  const outcome = await signedIn(context, profile)
  if (earlier) await revoke(context, earlier)
  return outcome
}

interface At {
  profile: string
  baseUrl: string
  /** Where the sign-in is kept. */
  store: TokenStore
  scopes: readonly string[]
  /** Those of them that were named by `--scope`. */
  more: readonly string[]
  /** The command, without `--resume` and `--browser`. */
  again: (when: string) => Next
  open: boolean
}

const keepBegun = ({ profiles: file }: Context, at: At, begun: DeviceSignIn | undefined) =>
  file.change((all) => {
    all.profiles[at.profile] = { user: null, ...all.profiles[at.profile], baseUrl: at.baseUrl, begun }
    all.current ??= at.profile
  })

/** By a code, which is approved on a page. Without a terminal it waits for nobody: the sign-in is kept, to be finished later. */
async function signInByCode(context: Context, at: At): Promise<void> {
  const { fetch, signal, output } = context
  const { baseUrl, store, scopes } = at
  const begun = await beginDeviceSignIn({ baseUrl, scopes, fetch, signal })
  output.warn(`Open ${output.styled('cyan', begun.completeUrl)}`)
  output.warn(`and approve the code ${output.styled('bold', begun.userCode)}`)
  if (!context.isInteractive) {
    await keepBegun(context, at, begun)
    askToApprove(context, begun)
  }
  if (at.open) context.world.openAddress(begun.completeUrl)
  output.note('Waiting for the approval…')
  await finishDeviceSignIn(begun, { store, fetch, signal })
}

function askToApprove(context: Context, { completeUrl, userCode, endsAt }: DeviceSignIn): never {
  const expiresAt = new Date(endsAt).toISOString()
  return context.needInput(
    `A person has to open ${completeUrl} and approve the code ${userCode}`,
    [goOn('once it is approved', 'login', '--resume')],
    { url: completeUrl, userCode, expiresAt },
  )
}

/** Finishes what `signInByCode` began. Where nobody can wait, it asks once. */
async function resume(context: Context, at: At): Promise<void> {
  const { fetch, signal } = context
  const begun = (await context.profiles.read()).profiles[at.profile]?.begun
  if (!begun)
    throw new CommandFailure('sign_in_needed', `No sign-in at ${at.baseUrl} has begun`, {
      next: [at.again('begin one')],
    })
  try {
    await finishDeviceSignIn(begun, { store: at.store, wait: context.isInteractive, fetch, signal })
  } catch (error) {
    if (error instanceof PlatformError && error.code === 'authorization_pending') askToApprove(context, begun)
    // Refused, expired or used up: there is nothing left to wait for.
    if (error instanceof PlatformError && error.status === 400) await keepBegun(context, at, undefined)
    throw error
  }
}

const page = (text: string): string =>
  `<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>${text}</title><p style="font:16px system-ui;margin:4rem auto;max-width:30rem;padding:0 1rem">${text}</p>`

/** By a redirect to a port of this machine (RFC 8252). */
async function signInByBrowser(context: Context, at: At): Promise<void> {
  const { fetch, signal, output } = context
  if (!context.isInteractive)
    context.needInput('A browser on this machine has to be at hand', [at.again('sign in by a code instead')])
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  try {
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const redirectUri = `${origin}/callback`
    const begun = await beginCodeSignIn({
      baseUrl: at.baseUrl,
      clientId: CLIENT_ID,
      redirectUri,
      scopes: at.scopes,
      fetch,
      signal,
    })
    const arrival = new Promise<string>((resolve) => {
      server.on('request', (request, response) => {
        // Any page can ask for anything here, such as `//`.
        if (!URL.canParse(request.url ?? '', origin)) return response.writeHead(400).end()
        const url = new URL(request.url ?? '', origin)
        response.setHeader('content-type', 'text/html; charset=utf-8').setHeader('connection', 'close')
        // Another tab's, or a page that guesses the port.
        if (url.pathname !== '/callback' || url.searchParams.get('state') !== begun.state)
          return response.writeHead(404).end()
        const text = url.searchParams.has('error')
          ? 'The sign-in was refused. You can close this page.'
          : 'You are signed in. Go back to the terminal.'
        response.end(page(text))
        resolve(url.href)
      })
    })
    output.warn(`Open ${output.styled('cyan', begun.url)}`)
    if (at.open) context.world.openAddress(begun.url)
    output.note('Waiting for the browser…')
    const callbackUrl = await Promise.race([arrival, aborted(signal)])
    await finishCodeSignIn(begun, { callbackUrl, store: at.store, fetch, signal })
  } finally {
    server.close()
    server.closeIdleConnections()
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))

/** Says why nobody was signed in. */
function explainSignIn(context: Context, { again, more }: At, error: unknown): unknown {
  if (error instanceof CommandFailure) return error
  if (context.signal.aborted) return interrupted(context.signal, 'Interrupted: nobody was signed in')
  if (!(error instanceof PlatformError)) return error
  const next = [again('try again')]
  if (error.code === 'access_denied')
    return new CommandFailure('sign_in_needed', 'The sign-in was refused in the browser', { next })
  if (error.code === 'expired_token' || error.code === 'invalid_grant')
    return new CommandFailure('sign_in_needed', 'The code has expired: nobody approved it in time', { next })
  if (error.code === 'invalid_scope')
    return new CommandFailure('usage', `One of the scopes is refused (${more.join(', ')}): ${error.message}`, {
      next: [goOn('how scopes are given', 'help', 'login')],
    })
  return error
}

/** Learns who signed in, and keeps it. */
async function signedIn(context: Context, name: string): Promise<Outcome> {
  const { profiles: file, fetch, signal } = context
  const { sub, email, name: fullName } = await userInfo({ store: file.store(name), fetch, signal })
  const user = { id: sub, email: email ?? null, name: fullName ?? null }
  await file.change((all) => {
    const profile = all.profiles[name]
    if (profile) profile.user = user
  })
  const signIn = (await file.read()).profiles[name]?.signIn
  const scopes = signIn?.scope?.split(' ') ?? []
  const data = {
    profile: name,
    platform: signIn?.baseUrl,
    user,
    scopes,
    expiresAt: new Date(signIn?.expiresAt ?? 0).toISOString(),
  }
  return {
    data,
    text: `Signed in at ${signIn?.baseUrl} as ${email ?? sub}`,
    next: [goOn('link this folder to an application', 'link'), goOn('deploy this folder', 'deploy')],
  }
}

/** Ends an earlier sign-in, which nobody can use any more. */
async function revoke({ fetch, signal, output }: Context, earlier: StoredToken): Promise<void> {
  const store = memoryStore()
  await store.write(earlier)
  await signOut({ store, fetch, signal }).catch(() =>
    output.warn('The earlier sign-in could not be revoked: end it on the account page'),
  )
}
