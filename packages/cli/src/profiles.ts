import { homedir } from 'node:os'
import { join } from 'node:path'
import type { StoredToken, TokenStore } from '@platform/sdk'
import { type PrivateFile, privateFile } from '@platform/sdk/node'
import type { DeviceSignIn } from '@platform/sdk/sign-in'
import { refuse } from './outcome.ts'

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

const NAME = /^[\w.-]{1,64}$/

/** The profile's name. Throws a failure for what is none. */
export const checkProfileName = (name: string): string =>
  NAME.test(name) && name !== '__proto__'
    ? name
    : refuse(`"${name}" is no name of a profile: expected letters, digits, "-", "_" and "."`)

/** Where the command line keeps sign-ins: a file of its own, so that one in another program stays what it is. */
export class ProfileFile {
  readonly path: string
  readonly #file: PrivateFile

  constructor({ XDG_CONFIG_HOME, HOME = homedir() }: Record<string, string | undefined>) {
    this.path = join(XDG_CONFIG_HOME || join(HOME, '.config'), 'platform/credentials.json')
    this.#file = privateFile(this.path)
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
    await this.#file.lock(() => this.#write(change))
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
      lock: (work) => this.#file.lock(work),
    }
  }

  /** Where another sign-in takes the place of a profile's. Until then nothing changes; then the profile is the one in use. */
  storeAnew(name: string): TokenStore {
    return {
      ...this.store(name),
      write: (token) =>
        this.#write((all) => {
          if (!token) return
          all.profiles[name] = { baseUrl: token.baseUrl, user: null, signIn: token }
          all.current = name
        }),
    }
  }
}
