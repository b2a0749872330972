import type { Application, Organization, Platform } from '@platform/sdk'
import { connect, identify, type Identity, kindOf, watchedFetch } from './connection.ts'
import { CommandFailure, type Next, refuse } from './outcome.ts'
import { Output } from './output.ts'
import { ProfileFile } from './profiles.ts'
import type { World } from './world.ts'

/** The flags that every command takes. */
export interface Settings {
  json: boolean
  url?: string | undefined
  profile?: string | undefined
  quiet: boolean
  verbose: boolean
  color: boolean
  nonInteractive: boolean
  yes: boolean
}

/** How long a rate limit may hold up a command that nobody watches. */
const PATIENCE_SECONDS = 10

export type EnvironmentSlug = 'production' | 'preview'

/** What a command works with. */
export class Context {
  readonly world: World
  readonly settings: Settings
  readonly typed: readonly string[]
  readonly output: Output
  readonly profiles: ProfileFile
  /** Ends every request and every wait: somebody interrupted, or the platform does not answer. */
  readonly signal: AbortSignal
  readonly fetch: typeof fetch
  /** Ends the command with a failure, whatever it waits for. */
  readonly giveUp: (failure: CommandFailure) => void
  /** The origin that left a request without an answer. */
  unanswering: string | undefined
  #identity: Promise<Identity> | undefined
  #platform: Promise<Platform> | undefined

  /** typed: the words of the command line. */
  constructor(world: World, settings: Settings, typed: readonly string[]) {
    this.world = world
    this.typed = typed
    this.settings = settings
    this.output = new Output(world, settings)
    this.profiles = new ProfileFile(world.env, world.signal)
    const ending = new AbortController()
    this.signal = ending.signal
    this.giveUp = (failure) => ending.abort(failure)
    const stop = () => ending.abort(world.signal.reason)
    if (world.signal.aborted) stop()
    else world.signal.addEventListener('abort', stop, { once: true })
    this.fetch = watchedFetch(world, this.output, {
      isVerbose: settings.verbose,
      giveUp: this.giveUp,
      onFailure: (origin) => (this.unanswering = origin),
      // A person sees it and can leave; others want to know.
      patienceSeconds: () => (this.isInteractive ? Number.POSITIVE_INFINITY : PATIENCE_SECONDS),
    })
  }

  /** Whether somebody sits at a terminal and may be asked. */
  get isInteractive(): boolean {
    const { stdin, stderr, env } = this.world
    const isInCi = env['CI'] !== undefined && !['', '0', 'false'].includes(env['CI'])
    return !this.settings.nonInteractive && !isInCi && stdin.isTTY === true && stderr.isTTY === true
  }

  /** What requests are signed with: a profile's sign-in, or what the environment holds. */
  get credential(): Identity['kind'] {
    return kindOf(this.world.env, this.settings.profile)
  }

  identity(): Promise<Identity> {
    return (this.#identity ??= identify(this.world, this.profiles, this.settings))
  }

  /** The platform, as whoever uses it. Throws a failure if nobody is signed in. */
  platform(): Promise<Platform> {
    return (this.#platform ??= this.identity().then((identity) =>
      connect(identity, { file: this.profiles, fetch: this.fetch, signal: this.signal }),
    ))
  }

  /** What every call of the SDK is given. */
  get call(): { signal: AbortSignal } {
    return { signal: this.signal }
  }

  /** The line that was typed, with more flags. Of a flag that is there twice the last counts. */
  again(when: string, ...more: string[]): Next {
    const end = this.typed.indexOf('--')
    return { words: this.typed.toSpliced(end === -1 ? this.typed.length : end, 0, ...more), when, isWhole: true }
  }

  /** Throws the failure that says what is missing where nobody can be asked. */
  needInput(message: string, next: readonly Next[], data?: unknown): never {
    throw new CommandFailure('input_needed', message, { next, data })
  }

  /** Makes sure that something is meant, which cannot be undone. Throws a failure if it is not, or nobody can be asked. */
  async confirm(question: string): Promise<void> {
    if (this.settings.yes) return
    if (!this.isInteractive) this.needInput(`${question} Say so with --yes`, [this.again('do it', '--yes')])
    const { askToConfirm } = await import('./ask.ts')
    if (!(await askToConfirm(this, question))) refuse('Nothing was changed')
  }
}

/** An application with its organization, as people type them. */
export const slugsOf = (application: Application): string => `${application.organization.slug}/${application.slug}`

export const nameOfOrganization = ({ name, slug }: Organization): string => `${name} (${slug})`
