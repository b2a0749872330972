import { signal } from '@preact/signals'
import { memoryStore, Platform, PlatformError, type TokenStore, userToken } from '@platform/sdk'
import { beginCodeSignIn, type CodeSignIn, finishCodeSignIn, prepareLeaving, signOutUrl } from '@platform/sdk/sign-in'
import type { Config } from '../config.ts'
import { heard } from '../platform/contact.ts'
import { leaveBy, watchHistory } from '../platform/leaving.ts'
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
  | {
      state: 'signed-in'
      platform: Platform
      store: TokenStore
      /** Proves anew who the person is, at the provider, and comes back to the path that is shown now. form: what waits there for `takeForm`. */
      stepUp(maxAgeSeconds: number, form: WaitingForm): Promise<void>
    }
  | { state: 'stopped'; stop: Stop; sentence?: string | undefined }

export const session = signal<Session>({ state: 'on-the-way', to: 'sign-in' })

/** What somebody had filled in when a newer sign-in was asked for. The browser keeps it meanwhile, so no secret belongs in it. */
export interface WaitingForm {
  /** Which form it is, and of what, such as `new-api-key 0199…`. */
  name: string
  fields: Readonly<Record<string, string | readonly string[]>>
}

/** The form that waits for a sign-in, until it is taken: across reloads, and sign-ins that fail. */
const WAITING = 'waiting-form'

/** Something that this tab keeps while its pages come and go; undefined if it is not there, or cannot be read. */
function kept(name: string): unknown {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? '') ?? undefined
  } catch {
    return undefined
  }
}

const waitingForm = (): WaitingForm | undefined => kept(WAITING) as WaitingForm | undefined

/** Whether a form of this name waited for a sign-in, and was not taken. */
export const isWaiting = (name: string): boolean => waitingForm()?.name === name

/** The form that waited for a sign-in, once; undefined if none of this name did. */
export function takeForm(name: string): WaitingForm['fields'] | undefined {
  const form = waitingForm()
  if (form?.name !== name) return undefined
  sessionStorage.removeItem(WAITING)
  return form.fields
}

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
  'network:env_vars:read',
  'network:env_vars:write',
  'network:env_vars:delete',
  // A key may be given what its maker holds, and no more.
  'platform:api_keys:read',
  'platform:api_keys:write',
  'platform:api_keys:delete',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:ai_gateway:chat',
  'network:ai_gateway:models',
  'network:ai_gateway:usage',
  'network:ai_gateway:budgets',
  'network:ai_gateway:policies',
]

/** The sign-in under way: what this tab keeps of it while the person is away, beside a form that waits. */
const UNDER_WAY = 'sign-in'
/** The `state` with which the provider sends somebody back after signing out. */
const SIGNED_OUT = 'signed-out'

interface UnderWay {
  begun: CodeSignIn
  path: string
}

function takeUnderWay(): UnderWay | undefined {
  const underWay = kept(UNDER_WAY) as UnderWay | undefined
  sessionStorage.removeItem(UNDER_WAY)
  return underWay
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

  async function signIn(maxAgeSeconds?: number): Promise<void> {
    session.value = { state: 'on-the-way', to: 'sign-in' }
    try {
      const begun = await beginCodeSignIn({
        baseUrl: apiUrl,
        clientId,
        redirectUri: `${location.origin}/callback`,
        scopes: SCOPES,
        ...(maxAgeSeconds !== undefined && { maxAgeSeconds }),
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
    session.value = { state: 'signed-in', platform, store, stepUp }
  }

  function stepUp(maxAgeSeconds: number, form: WaitingForm): Promise<void> {
    sessionStorage.setItem(WAITING, JSON.stringify(form))
    return signIn(maxAgeSeconds)
  }

  async function signOut(): Promise<void> {
    const { value } = session
    if (value.state !== 'signed-in') return
    session.value = { state: 'on-the-way', to: 'sign-out' }
    forgetAll()
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
    forgetAll()
    stop('signed-out')
  })
  addEventListener('pagehide', () => leave())
  // A page from the back/forward cache has revoked its tokens when it was left.
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted && session.value.state !== 'stopped') void signIn()
  })

  watchHistory()
  const url = new URL(location.href)
  if (isCallback(url)) void comeBack(url.href)
  else if (url.pathname === '/' && url.searchParams.get('state') === SIGNED_OUT) {
    history.replaceState(null, '', '/')
    stop('signed-out')
  } else void signIn()

  return {
    signIn: () => signIn(),
    refuse,
    signOut: async () => leaveBy(() => void signOut()),
  }
}

function forgetAll(): void {
  sessionStorage.clear()
  localStorage.clear()
}
