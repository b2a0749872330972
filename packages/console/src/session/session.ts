import { signal } from '@preact/signals'
import { memoryStore, Platform, PlatformError, type TokenStore, userToken } from '@platform/sdk'
import { beginCodeSignIn, type CodeSignIn, finishCodeSignIn, prepareLeaving, signOutUrl } from '@platform/sdk/sign-in'
import type { Config } from '../config.ts'
import { heard } from '../platform/contact.ts'
import { isCallback, returnPath } from './return-path.ts'

/** Why nobody is signed in, and why the console does not try again by itself. */
export type Stop =
  /** The person signed out, here or in another tab. */
  | 'signed-out'
  /** As far as this browser goes: the provider, whose session goes on, did not answer. */
  | 'half-signed-out'
  /** The provider, or the person there, said no. */
  | 'refused'
  /** An answer does not fit the sign-in, such as a wrong `state`, or the two services do not fit each other. */
  | 'wrong-answer'
  /** Somebody came back from a sign-in that this tab did not begin. */
  | 'not-begun'
  /** The provider or the API did not answer. */
  | 'unreachable'
  /** The API refuses the first token of a sign-in: another would fare no better. */
  | 'not-accepted'
  /** The provider renews the sign-in no more: the session was ended, or the person or the console lost access. */
  | 'ended'

export type Session =
  | { state: 'on-the-way'; to: 'sign-in' | 'sign-out' }
  | { state: 'signed-in'; platform: Platform; store: TokenStore }
  | { state: 'stopped'; stop: Stop; sentence?: string | undefined }

export const session = signal<Session>({ state: 'on-the-way', to: 'sign-in' })

const SCOPES = [
  'openid',
  'email',
  'offline_access',
  'platform:organizations:read',
  'platform:organizations:write',
  'network:applications:read',
  'network:applications:write',
  'network:deployments:read',
  'network:deployments:trigger',
  'network:deployments:write',
]

/** The sign-in under way: all that this tab keeps of it, while the person is away. */
const UNDER_WAY = 'sign-in'
/** The `state` with which the provider sends somebody back after signing out. */
const SIGNED_OUT = 'signed-out'

interface UnderWay {
  begun: CodeSignIn
  path: string
}

function takeUnderWay(): UnderWay | undefined {
  const text = sessionStorage.getItem(UNDER_WAY)
  sessionStorage.removeItem(UNDER_WAY)
  try {
    return text === null ? undefined : (JSON.parse(text) as UnderWay)
  } catch {
    return undefined
  }
}

/** What a sign-in that failed stops with. */
function stopOf(error: unknown): Stop {
  if (!(error instanceof PlatformError)) return 'wrong-answer'
  const { status, retryable } = error
  if (retryable || status >= 500) return 'unreachable'
  return status === 400 || status === 401 ? 'refused' : 'wrong-answer'
}

export interface SessionControl {
  /** Goes to the provider, and comes back to the path that is shown now. */
  signIn(): Promise<void>
  /** The platform refuses this tab's sign-in for good. */
  refuse(): void
  /** Ends the session at the provider, for all tabs. */
  signOut(): Promise<void>
}

/**
 * Opens this tab's session. Tokens live in memory alone, a family of them in each tab, which is revoked when the tab is left. A page that is
 * loaded signs in by itself, once: whatever goes wrong after that ends on a page with a button, so nothing goes round in circles.
 */
export function openSession(config: Config): SessionControl {
  const { apiUrl, issuer, clientId } = config
  /** Ends this tab's family, without waiting; again, it changes nothing. */
  let leave: () => void = () => {}
  let wasAccepted = false
  const others = new BroadcastChannel(SIGNED_OUT)

  const stop = (why: Stop, sentence?: string): void => {
    session.value = { state: 'stopped', stop: why, sentence }
  }

  async function watchedFetch(url: string, init: RequestInit): Promise<Response> {
    const answer = await fetch(url, init)
    const { status, ok } = answer
    heard(status)
    const { origin } = new URL(url)
    if (ok && origin === new URL(apiUrl).origin) wasAccepted = true
    // To the SDK the sign-in has not ended where the person may not use the console any more (400): calls would go on failing.
    if ((status === 400 || status === 401) && origin === new URL(issuer).origin) refuse()
    return answer
  }

  function refuse(): void {
    if (session.value.state !== 'signed-in') return
    leave()
    stop(wasAccepted ? 'ended' : 'not-accepted')
  }

  /** Whether somebody signed out in another tab, while this one was signing in. */
  const isStopped = (): boolean => session.value.state === 'stopped'

  async function signIn(): Promise<void> {
    session.value = { state: 'on-the-way', to: 'sign-in' }
    try {
      const begun = await beginCodeSignIn({
        baseUrl: apiUrl,
        clientId,
        redirectUri: `${location.origin}/callback`,
        scopes: SCOPES,
      })
      if (isStopped()) return
      const path = returnPath(location.pathname + location.search + location.hash)
      sessionStorage.setItem(UNDER_WAY, JSON.stringify({ begun, path } satisfies UnderWay))
      // In the place of this entry of the history: Back would lead to a page that goes forward again.
      location.replace(begun.url)
    } catch (error) {
      if (!isStopped()) stop(stopOf(error), (error as Error).message)
    }
  }

  async function comeBack(callbackUrl: string): Promise<void> {
    const underWay = takeUnderWay()
    // Before anything is awaited: a reload from here on begins anew, and neither code nor error stays in the history.
    history.replaceState(null, '', returnPath(underWay?.path))
    if (!underWay) return stop('not-begun')
    const store = memoryStore()
    try {
      await finishCodeSignIn(underWay.begun, { callbackUrl, store })
      leave = await prepareLeaving({ store })
    } catch (error) {
      if (!isStopped()) stop(stopOf(error), (error as Error).message)
      return
    }
    if (isStopped()) return leave()
    const platform = new Platform({ baseUrl: apiUrl, credential: userToken({ store, clientId }), fetch: watchedFetch })
    session.value = { state: 'signed-in', platform, store }
  }

  async function signOut(): Promise<void> {
    const { value } = session
    if (value.state !== 'signed-in') return
    session.value = { state: 'on-the-way', to: 'sign-out' }
    clearStorages()
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin alone
    others.postMessage(SIGNED_OUT)
    try {
      // Going there ends this tab's family, too, as leaving does.
      location.replace(await signOutUrl({ store: value.store, redirectUri: `${location.origin}/`, state: SIGNED_OUT }))
    } catch (error) {
      leave()
      stop('half-signed-out', (error as Error).message)
    }
  }

  others.addEventListener('message', () => {
    leave()
    clearStorages()
    stop('signed-out')
  })
  addEventListener('pagehide', () => leave())
  // A page from the back/forward cache has revoked its tokens when it was left.
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted && session.value.state !== 'stopped') void signIn()
  })

  const url = new URL(location.href)
  if (isCallback(url)) void comeBack(url.href)
  else if (url.pathname === '/' && url.searchParams.get('state') === SIGNED_OUT) {
    history.replaceState(null, '', '/')
    stop('signed-out')
  } else void signIn()

  return { signIn, refuse, signOut }
}

function clearStorages(): void {
  sessionStorage.clear()
  localStorage.clear()
}
