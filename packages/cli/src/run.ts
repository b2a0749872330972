import { CommanderError } from 'commander'
import { Context, type Settings } from './context.ts'
import { type ExitCode, reasons } from './exit-codes.ts'
import { CommandFailure, goOn, type Next, type Outcome } from './outcome.ts'
import { createProgram } from './program.ts'
import { inOneLine, shellWord } from './visible-text.ts'
import type { World } from './world.ts'

const SCHEMA_VERSION = 1

/** Flags that hold before the line could be read. */
function settingsBefore(argv: readonly string[]): Settings {
  const own = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : undefined)
  return {
    json: own.includes('--json'),
    quiet: own.includes('--quiet'),
    verbose: false,
    color: !own.includes('--no-color'),
    nonInteractive: false,
    yes: false,
  }
}

/** What goes on, as it is typed: at the platform and with the sign-in that were named, and without questions where none were wanted. */
function printed(next: readonly Next[], { settings, world }: Context): { command: string; when: string }[] {
  const { url, profile, nonInteractive, json } = settings
  const flags = (words: readonly string[]): string[] => [
    ...(url !== undefined && !words.includes('--url') ? ['--url', url] : []),
    ...(profile === undefined ? [] : ['--profile', profile]),
    ...(nonInteractive ? ['--non-interactive'] : []),
    ...(json ? ['--json'] : []),
  ]
  return next.map(({ words, when, isWhole = false }) => ({
    command: [world.program, ...[...words, ...(isWhole ? [] : flags(words))].map(shellWord)].join(' '),
    when: inOneLine(when),
  }))
}

function finish(context: Context, { data, text, next = [], exitCode }: Outcome): number {
  if (exitCode !== undefined) return exitCode
  const { output } = context
  const shown = printed(next, context)
  if (output.isJson) output.document({ status: 'ok', data, next: shown, schemaVersion: SCHEMA_VERSION })
  else {
    for (const { command, when } of shown) output.note(`${output.styled('dim', `${when}:`)} ${command}`)
    if (text !== undefined) output.text(text)
  }
  return 0
}

function fail(context: Context, failure: CommandFailure): ExitCode {
  const { output } = context
  const { reason, message, hint, requestId, data } = failure
  const next = printed(failure.next, context)
  if (output.isJson)
    output.document({
      status: reason === 'input_needed' ? 'action_required' : 'error',
      reason,
      message,
      ...(hint !== undefined && { hint }),
      ...(requestId !== undefined && { requestId }),
      ...(data !== undefined && { data }),
      next,
      schemaVersion: SCHEMA_VERSION,
    })
  else {
    output.warn(`${output.styled('red', reason === 'input_needed' ? 'Input needed' : 'Error')}: ${message}`)
    if (hint !== undefined) output.warn(hint)
    if (requestId !== undefined) output.warn(output.styled('dim', `Request ${requestId}`))
    for (const { command, when } of next) output.warn(`${output.styled('dim', `${when}:`)} ${command}`)
  }
  return reasons[reason]
}

/** Runs a command line, without the names of Node and the program. Resolves to the exit code; never throws. */
export async function run(argv: readonly string[], world: World): Promise<number> {
  let context = new Context(world, settingsBefore(argv), argv)
  let code: number | undefined
  const program = createProgram(async (work) => {
    context = new Context(world, program.opts() as unknown as Settings, argv)
    code = finish(context, await work(context))
  })
  const written: string[] = []
  const quiet = (command: typeof program): void => {
    command
      .exitOverride()
      .configureOutput({ writeOut: (text) => void written.push(text), writeErr: () => {}, outputError: () => {} })
    command.commands.forEach(quiet)
  }
  quiet(program)
  if (argv.length === 0) argv = ['--help']
  try {
    await program.parseAsync(argv, { from: 'user' })
    return code ?? 0
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.code === 'commander.helpDisplayed' || error.code === 'commander.version') {
        world.stdout.write(written.join(''))
        return 0
      }
      const groups = program.commands.filter((each) => each.commands.length > 0).map((each) => each.name())
      return fail(context, usageFailure(error, argv, groups))
    }
    const { explain } = await import('./failure.ts')
    return fail(context, explain(error, context))
  }
}

/** What commander found wrong, as a failure. groups: commands that are nothing without one of theirs. */
function usageFailure(
  { code, message }: CommanderError,
  argv: readonly string[],
  groups: readonly string[],
): CommandFailure {
  // A group without its command: `platform env`.
  const group = code === 'commander.help' ? argv.find((word) => groups.includes(word)) : undefined
  const sentence =
    group === undefined ? message.replace(/^error: /, '').replaceAll('\n', ' ') : `${group} needs a command`
  return new CommandFailure('usage', sentence, {
    next: [goOn('every command', 'help')],
  })
}
