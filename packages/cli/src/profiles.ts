import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { StoredToken, TokenStore } from '@platform/sdk'
import { type PrivateFile, privateFile } from '@platform/sdk/node'
import type { DeviceSignIn } from '@platform/sdk/sign-in'
import { interrupted } from './interrupted.ts'
import { CommandFailure, refuse } from './outcome.ts'

interface User {
  id: string
  email: string | null
  name: string | null
}

/** A platform, and who signed in there. */
export interface Profile {
  baseUrl: string
  user: User | null
  /** undefined: signed out. */
  signIn?: StoredToken | undefined
  /** A sign-in by device that `login --resume` finishes. */
  begun?: DeviceSignIn | undefined
}

/** What credentials.json holds. */
interface Profiles {
  current: string | null
  profiles: Record<string, Profile>
}

/** How long another process may work on the file. */
const LOCK_MS = 30_000

/** Containers have users without a home. */
function homeOfUser(): string {
  try {
    return homedir()
  } catch {
    return refuse('There is no home to keep sign-ins in: set HOME or XDG_CONFIG_HOME')
  }
}

const NAME = /^[\w.-]{1,64}$/

/** The profile's name. Throws a failure for anything else. */
export const checkProfileName = (name: string): string =>
  NAME.test(name) && name !== '__proto__'
    ? name
    : refuse(`"${name}" is not a profile's name: expected letters, digits, "-", "_" and "."`)

/** Where the command line keeps sign-ins: a file of its own, so that one in another program stays what it is. */
export class ProfileFile {
  readonly #env: Record<string, string | undefined>
  readonly #signal: AbortSignal
  #opened: PrivateFile | undefined

  constructor(env: Record<string, string | undefined>, signal: AbortSignal) {
    this.#env = env
    this.#signal = signal
  }

  /** Never below a project: an empty HOME is no home. */
  get path(): string {
    const { XDG_CONFIG_HOME, HOME } = this.#env
    const path = join(XDG_CONFIG_HOME || join(HOME || homeOfUser(), '.config'), 'platform/credentials.json')
    return isAbsolute(path)
      ? path
      : refuse(`"${path}" is not a place for sign-ins: expected an absolute XDG_CONFIG_HOME or HOME`)
  }

  get #file(): PrivateFile {
    return (this.#opened ??= privateFile(this.path))
  }

  /** Works alone on the file. Throws a failure if another process does not let go of it. */
  async #lock<T>(work: () => Promise<T>): Promise<T> {
    const limit = AbortSignal.any([this.#signal, AbortSignal.timeout(LOCK_MS)])
    let isMine = false
    const locked = this.#file.lock(() => {
      isMine = true
      return work()
    })
    const left = new Promise<never>((_, reject) =>
      limit.addEventListener(
        'abort',
        () => {
          if (isMine) return
          const held = new CommandFailure(
            'failed',
            `Another process works on the sign-ins and does not end: see ${this.path}.lock`,
          )
          reject(this.#signal.aborted ? interrupted(this.#signal) : held)
        },
        { once: true },
      ),
    )
    return Promise.race([locked, left])
  }

  async read(): Promise<Profiles> {
    const text = await this.#file
      .read()
      .catch((error: Error) => refuse(`The sign-ins cannot be read: ${error.message}`))
    if (text === undefined) return { current: null, profiles: {} }
    try {
      const { current, profiles } = JSON.parse(text) as Profiles
      if (typeof profiles !== 'object' || profiles === null) throw new TypeError('no profiles')
      return { current, profiles }
    } catch {
      return refuse(`${this.path} holds no sign-ins that can be read: expected what \`login\` writes`, {
        hint: `Remove it, and sign in again.`,
      })
    }
  }

  async change(change: (profiles: Profiles) => void): Promise<void> {
    await this.#lock(() => this.#write(change))
  }

  async #write(change: (profiles: Profiles) => void): Promise<void> {
    const profiles = await this.read()
    change(profiles)
    await this.#file.write(`${JSON.stringify(profiles, null, 2)}\n`)
  }

  /** The sign-in of one profile, as the SDK keeps it. */
  store(name: string): TokenStore {
    return {
      read: async () => (await this.read()).profiles[name]?.signIn,
      write: (token) =>
        this.#write(({ profiles }) => {
          const profile = profiles[name]
          if (profile) profile.signIn = token
        }),
      lock: (work) => this.#lock(work),
    }
  }

  /**
   * Where another sign-in replaces a profile's. Until then nothing changes; then the profile is the one in use. onReplaced: gets the
   * earlier sign-in, if there was one.
   */
  storeAnew(name: string, onReplaced: (earlier: StoredToken) => void): TokenStore {
    return {
      ...this.store(name),
      write: (token) =>
        this.#write((all) => {
          if (!token) return
          const earlier = all.profiles[name]?.signIn
          if (earlier) onReplaced(earlier)
          all.profiles[name] = { baseUrl: token.baseUrl, user: null, signIn: token }
          all.current = name
        }),
    }
  }
}
