/** A person's sign-in, as a store keeps it. */
export interface StoredToken {
  /** Of the platform that the token was made for. No other is sent it. */
  baseUrl: string
  /** The identity provider that renews it. */
  issuer: string
  clientId: string
  accessToken: string
  /** Missing where the sign-in did not ask for `offline_access`: such a token is not renewed. */
  refreshToken?: string | undefined
  /** Of the sign-in, if it asked for `openid`; it may have expired. Tells the identity provider whom to sign out (see `signOutUrl`). */
  idToken?: string | undefined
  /** Milliseconds since 1970, by the clock of this machine. */
  expiresAt: number
  /** Names with spaces between. */
  scope?: string | undefined
}

/** Where a sign-in is kept. */
export interface TokenStore {
  /** undefined: nobody is signed in. */
  read(): Promise<StoredToken | undefined>
  /** Called within `lock`. undefined signs out. */
  write(token: StoredToken | undefined): Promise<void>
  /** Does the work while nobody else who shares the store is at work within its lock. */
  lock<T>(work: () => Promise<T>): Promise<T>
}

/** Keeps a sign-in until the process ends or the page is left. */
export function memoryStore(): TokenStore {
  let stored: StoredToken | undefined
  let last: Promise<unknown> = Promise.resolve()
  return {
    read: () => Promise.resolve(stored),
    write(token) {
      stored = token
      return Promise.resolve()
    },
    lock(work) {
      const turn = last.then(work)
      last = turn.catch(() => {})
      return turn
    },
  }
}
