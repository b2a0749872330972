import type { CommandUnknownOpts, Option } from '@commander-js/extra-typings'
import { apiVersion } from '@platform/sdk'
import { exitCodes, reasons } from './exit-codes.ts'
import { type Example, examplesOf } from './program.ts'
import { collected } from './values.ts'

interface Flag {
  flags: string
  description: string
  choices: readonly string[]
  isRepeatable: boolean
  default: unknown
}

interface ArgumentOf {
  name: string
  description: string
  isRequired: boolean
  isRepeatable: boolean
}

interface CommandOf {
  /** As it is typed, such as `env set`. */
  command: string
  description: string
  arguments: ArgumentOf[]
  flags: Flag[]
  examples: readonly Example[]
}

/** Everything that there is to know of the command line, or of one of its commands. */
export interface Manifest {
  version: string
  commands: CommandOf[]
  /** Of every command. */
  globalFlags: Flag[]
  exitCodes: { code: number; meaning: string; reasons: string[] }[]
}

const flagsOf = (options: readonly Option[]): Flag[] =>
  options.map((option) => ({
    flags: option.flags,
    description: option.description,
    choices: option.argChoices ?? [],
    isRepeatable: option.parseArg === collected,
    default: option.negate ? true : ((option.defaultValue as unknown) ?? null),
  }))

const nameOf = (command: CommandUnknownOpts): string =>
  command.parent?.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name()

/** Commands that do something: a group is its commands. */
function leavesOf(command: CommandUnknownOpts): CommandUnknownOpts[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf)
}

export function manifestOf(command: CommandUnknownOpts): Manifest {
  let root = command
  while (root.parent) root = root.parent
  return {
    version: apiVersion,
    commands: leavesOf(command).map((each) => ({
      command: nameOf(each),
      description: each.description(),
      arguments: each.registeredArguments.map((argument) => ({
        name: argument.name(),
        description: argument.description,
        isRequired: argument.required,
        isRepeatable: argument.variadic,
      })),
      flags: flagsOf(each.options),
      examples: examplesOf(each),
    })),
    // With `--help`, which commander keeps apart from a command's options.
    globalFlags: flagsOf(root.createHelp().visibleOptions(root)),
    exitCodes: Object.entries(exitCodes).map(([code, meaning]) => ({
      code: Number(code),
      meaning,
      reasons: Object.entries(reasons).flatMap(([reason, exit]) => (exit === Number(code) ? [reason] : [])),
    })),
  }
}
