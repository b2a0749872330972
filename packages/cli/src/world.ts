import type { Readable, Writable } from 'node:stream'

/** What a command knows of the machine. Tests bring their own. */
export interface World {
  env: Record<string, string | undefined>
  /** The folder that the person is in. */
  cwd: string
  stdin: Readable & { isTTY?: boolean }
  stdout: Writable & { isTTY?: boolean }
  stderr: Writable & { isTTY?: boolean }
  /** Aborted when somebody wants the command to end; its reason is the name of the signal. */
  signal: AbortSignal
  /** Takes what would abort it, while a program of somebody else runs. */
  onSignal?: ((signal: NodeJS.Signals) => void) | undefined
  /** How this program is started again, such as `platform` or `node platform.mjs`. */
  program: string
  fetch: typeof fetch
  /** Opens an address in a browser. */
  openAddress(url: string): void
  /** How long the first answer of a platform may take. */
  firstAnswerMs: number
}
