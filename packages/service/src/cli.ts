import { argv, env, exit, stderr, stdin, stdout } from 'node:process'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { ApiError } from '@platform/errors/api-error'
import { createLogger, type Logger } from '@platform/runtime/logger'
import { startupFailure } from './startup-failure.ts'

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

/** The call was wrong, not what it asked for: exit code 2. */
export class UsageError extends Error {}

/** One thing the operator can do. */
export interface Command<Deps> {
  /** Words that name it, such as `client create`. */
  name: string
  usage: string
  summary: string
  /** How many words it takes, no more and no fewer; without it `run` tells. */
  wordCount?: number
  /** Options that take a value; `repeat` may come several times. */
  options?: Record<string, 'value' | 'repeat' | 'switch'>
  /** Returns what is printed, as JSON or as text. */
  run(deps: Deps, args: Arguments): Promise<Output>
}

interface Output {
  json: unknown
  /** For people; a program that prints JSON alone has none. */
  text?: string
}

/** The command line of a service. */
interface Program<Config extends { MIGRATE_ON_START: boolean }, Deps> {
  /** Of log lines, such as `api`. */
  name: string
  commands: readonly Command<Deps>[]
  /** Lines of the help below the commands. */
  notes: readonly string[]
  /**
   * `text`: commands print text, JSON with --json, and a wrong call gets a sentence that points to the help. `json`: commands
   * print a line of JSON, and a wrong call, also one without a command, gets the help.
   */
  prints: 'text' | 'json'
  loadConfig(env: Record<string, string | undefined>): Config
  migrate(config: Config): Promise<void>
  compose(config: Config, overrides: { logger: Logger }): Promise<{ deps: Deps; close(): Promise<void> }>
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

type Description = Omit<Command<never>, 'run'>
type AnyProgram = Pick<Program<never, never>, 'notes' | 'prints'> & { commands: readonly Description[] }

/** Has nothing to run: it comes before the service is composed. */
const migrateCommand: Description & { run?: undefined } = {
  name: 'migrate',
  usage: 'migrate',
  summary: 'bring the database to the schema of this release',
  wordCount: 0,
}

const helpOf = ({ commands, notes, prints }: AnyProgram): string =>
  [
    `Usage: node src/cli.ts COMMAND${prints === 'text' ? ' [--json]' : ''}`,
    '',
    ...[migrateCommand, ...commands].map(({ usage, summary }) => `  ${usage}\n      ${summary}`),
    '',
    ...notes,
    'Reads the same environment as the service. Exit codes: 0 done, 1 refused or failed, 2 called wrongly.',
    '',
  ].join('\n')

function findCommand<Deps>(commands: readonly Command<Deps>[], words: readonly string[]) {
  for (const command of [migrateCommand, ...commands]) {
    const name = command.name.split(' ')
    if (name.every((word, place) => words[place] === word)) return { command, rest: words.slice(name.length) }
  }
  throw new UsageError(words.length === 0 ? 'Which command?' : `Unknown command: ${words.slice(0, 2).join(' ')}`)
}

type ParseOptions = NonNullable<Parameters<typeof parseArgs>[0]>['options']

function parseOrRefuse(args: string[], options: ParseOptions) {
  try {
    return parseArgs({ args, options: options ?? {}, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function readArguments(
  { usage, wordCount, options: ownOptions }: Description,
  rest: string[],
  prints: 'text' | 'json',
): Arguments {
  const options = Object.entries({ ...ownOptions, ...(prints === 'text' && { json: 'switch' }) }).map(
    ([name, kind]) => [name, kind === 'switch' ? { type: 'boolean' } : { type: 'string', multiple: true }],
  )
  const { values, positionals } = parseOrRefuse(rest, Object.fromEntries(options) as ParseOptions)
  if (wordCount !== undefined && positionals.length !== wordCount) throw new UsageError(`Usage: ${usage}`)
  const all = (name: string): string[] => {
    const value = values[name]
    return Array.isArray(value) ? value.map(String) : []
  }
  return {
    words: positionals,
    option: (name) => all(name).at(-1),
    options: all,
    isSet: (name) => values[name] === true,
    readStdin: () => text(stdin),
  }
}

/** Runs a command on what the service is composed of, and prints its result. */
async function runCommand<Config extends { MIGRATE_ON_START: boolean }, Deps>(
  program: Program<Config, Deps>,
  words: string[],
): Promise<void> {
  const { command, rest } = findCommand(program.commands, words)
  const args = readArguments(command, rest, program.prints)
  const print = ({ json, text }: Output): void => {
    const isJson = program.prints === 'json' || args.isSet('json') || text === undefined
    stdout.write(`${isJson ? JSON.stringify(json) : text}\n`)
  }

  const config = program.loadConfig(env)
  if (!command.run || config.MIGRATE_ON_START) await program.migrate(config)
  if (!command.run) return print({ json: { migrated: true }, text: 'The schema is the newest' })
  // Logs go to stderr, so that stdout holds the answer alone.
  const { deps, close } = await program.compose(config, { logger: createLogger(program.name, 'warn', stderr) })
  try {
    // Before closing: a secret that is shown once must not be lost because something would not close.
    print(await command.run(deps, args))
  } finally {
    await close()
  }
}

/**
 * Runs the command that the process was called with: brings the database to its schema unless MIGRATE_ON_START is false,
 * composes the service, prints what the command returns. `migrate` is a command of every program.
 *
 * Ends the process with 1 when the command fails, with 2 when it was called wrongly; both say why on stderr.
 */
export async function runCli<Config extends { MIGRATE_ON_START: boolean }, Deps>(
  program: Program<Config, Deps>,
): Promise<void> {
  const words = argv.slice(2)
  if (words.includes('--help') || (words.length === 0 && program.prints === 'text')) {
    stdout.write(helpOf(program))
    return
  }
  try {
    await runCommand(program, words)
  } catch (error) {
    if (error instanceof UsageError) {
      stderr.write(program.prints === 'json' ? helpOf(program) : `${error.message}. See --help.\n`)
      exit(2)
    }
    stderr.write(`${error instanceof ApiError ? error.message : startupFailure(error)}\n`)
    exit(1)
  }
}
