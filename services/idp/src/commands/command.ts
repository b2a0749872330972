import type { Deps } from '../deps.ts'

/** Words and options after the command's name, as parseArgs gives them. */
export interface Arguments {
  words: readonly string[]
  /** The last value of an option. */
  option(name: string): string | undefined
  /** All values of an option that may repeat. */
  options(name: string): readonly string[]
  isSet(name: string): boolean
  /** Everything on stdin. */
  readStdin(): Promise<string>
}

/** The call was wrong, not what it asked for: exit code 2 and the usage. */
export class UsageError extends Error {}

/** One thing the operator can do. */
export interface Command {
  /** Words that name it, such as `client create`. */
  name: string
  usage: string
  summary: string
  /** Options that take a value; `repeat` may come several times. */
  options?: Record<string, 'value' | 'repeat' | 'switch'>
  /** Returns what is printed: as JSON with --json, else `text`. */
  run(deps: Deps, args: Arguments): Promise<{ json: unknown; text: string }>
}

/** The word at a position. Throws UsageError naming what is missing. */
export function requireWord(args: Arguments, position: number, what: string): string {
  const word = args.words[position]
  if (word === undefined) throw new UsageError(`Missing: ${what}`)
  return word
}

/** An option that has to be there. Throws UsageError. */
export function requireOption(args: Arguments, name: string): string {
  const value = args.option(name)
  if (value === undefined) throw new UsageError(`Missing: --${name}`)
  return value
}
