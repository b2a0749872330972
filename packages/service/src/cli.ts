import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { ApiError } from '@platform/errors/api-error'
import { createLogger, type Logger } from '@platform/runtime/logger'
import type { Call } from './run-process.ts'
import { startupFailure } from './startup-failure.ts'

/** Words and options after the command's name, parsed by parseArgs. */
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

/** The command was called incorrectly: exit code 2. */
export class UsageError extends Error {}

/** A command for the operator. */
export interface Command<Deps> {
  /** The words of its name, for example `client create`. */
  name: string
  usage: string
  summary: string
  /** The exact number of words; if omitted, `run` checks it. */
  wordCount?: number
  /** 'value': an option with a value; 'repeat': one that may occur several times; 'switch': one without a value. */
  options?: Record<string, 'value' | 'repeat' | 'switch'>
  /** Returns the output, as JSON or as text. */
  run(deps: Deps, args: Arguments): Promise<Output>
}

interface Output {
  json: unknown
  /** For people; absent in programs that only print JSON. */
  text?: string
}

/** The command line of a service. */
interface Program<Config extends { MIGRATE_ON_START: boolean }, Deps> {
  /** As log lines name it, for example `api`. */
  name: string
  commands: readonly Command<Deps>[]
  /** Lines of the help, below the commands. */
  notes: readonly string[]
  /**
   * `text`: commands print text, or JSON with --json, and an incorrect call gets a sentence that points to the help. `json`:
   * commands print a line of JSON, and an incorrect call, including one without a command, gets the help.
   */
  prints: 'text' | 'json'
  loadConfig(env: Record<string, string | undefined>): Config
  /** Brings the database to the schema of this release; with MIGRATE_ON_START false makes sure that it has it. */
  prepareDatabase(config: Config, logger: Logger): Promise<void>
  compose(config: Config, overrides: { logger: Logger }): Promise<{ deps: Deps; close(): Promise<void> }>
}

/** Returns the word at a position. Throws UsageError naming what is missing. */
export function requireWord(args: Arguments, position: number, what: string): string {
  const word = args.words[position]
  if (word === undefined) throw new UsageError(`Missing: ${what}`)
  return word
}

/** Returns the value of a required option. Throws UsageError if it is missing. */
export function requireOption(args: Arguments, name: string): string {
  const value = args.option(name)
  if (value === undefined) throw new UsageError(`Missing: --${name}`)
  return value
}

type Description = Omit<Command<never>, 'run'>
type AnyProgram = Pick<Program<never, never>, 'notes' | 'prints'> & { commands: readonly Description[] }

/** Has no `run`: it runs before the service is composed. */
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
  stdin: Readable,
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

/** Composes the service, runs a command on it and prints the result. */
async function runCommand<Config extends { MIGRATE_ON_START: boolean }, Deps>(
  program: Program<Config, Deps>,
  { words, env, stdin, stdout, stderr }: Call,
): Promise<void> {
  const { command, rest } = findCommand(program.commands, words)
  const args = readArguments(command, rest, program.prints, stdin)
  const print = ({ json, text }: Output): void => {
    const isJson = program.prints === 'json' || args.isSet('json') || text === undefined
    stdout.write(`${isJson ? JSON.stringify(json) : text}\n`)
  }

  const config = program.loadConfig(env)
  // Logs go to stderr, so that stdout holds only the output.
  const logger = createLogger(program.name, 'warn', stderr)
  await program.prepareDatabase(command.run ? config : { ...config, MIGRATE_ON_START: true }, logger)
  if (!command.run) return print({ json: { migrated: true }, text: 'The schema is the newest' })
  const { deps, close } = await program.compose(config, { logger })
  try {
    // Before closing: a secret that is shown once must not be lost because a resource fails to close.
    print(await command.run(deps, args))
  } finally {
    await close()
  }
}

/**
 * Runs a command: prepares the database, composes the service, prints what the command returns. Every program has the command `migrate`.
 *
 * Returns the exit code: 0, 1 if the command failed, 2 if it was called incorrectly; both explain themselves on stderr. A
 * service that failed to start or to close may keep handles open.
 */
export async function runCli<Config extends { MIGRATE_ON_START: boolean }, Deps>(
  program: Program<Config, Deps>,
  call: Call,
): Promise<number> {
  const { words, env, stdout, stderr } = call
  if (words.includes('--help') || (words.length === 0 && program.prints === 'text')) {
    stdout.write(helpOf(program))
    return 0
  }
  try {
    await runCommand(program, call)
    return 0
  } catch (error) {
    if (error instanceof UsageError) {
      stderr.write(program.prints === 'json' ? helpOf(program) : `${error.message}. See --help.\n`)
      return 2
    }
    stderr.write(`${error instanceof ApiError ? error.message : startupFailure(error, env)}\n`)
    return 1
  }
}
