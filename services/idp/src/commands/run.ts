import { argv, env, exit, stderr, stdin, stdout } from 'node:process'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { ApiError } from '@platform/errors/api-error'
import { createLogger } from '@platform/runtime/logger'
import { applyCommand } from './apply.ts'
import { auditCommand } from './audit.ts'
import { clientCommands } from './clients.ts'
import { type Arguments, type Command, UsageError } from './command.ts'
import { initCommand } from './init.ts'
import { keyCommands } from './keys.ts'
import { userCommands } from './users.ts'
import { compose, migrate } from '../compose.ts'
import { loadConfig } from '../config.ts'
import { startupFailure } from '@platform/service/startup-failure'

const migrateCommand: Command = {
  name: 'migrate',
  usage: 'migrate',
  summary: 'bring the database to the newest schema',
  // main() has done it.
  run: async () => ({ json: { migrated: true }, text: 'The schema is the newest' }),
}

const commands: readonly Command[] = [
  initCommand,
  applyCommand,
  migrateCommand,
  ...userCommands,
  ...clientCommands,
  ...keyCommands,
  auditCommand,
]

const help = (): string =>
  [
    'Usage: node src/cli.ts COMMAND [--json]',
    '',
    ...commands.map(({ usage, summary }) => `  ${usage}\n      ${summary}`),
    '',
    'Reads the same environment as the service. Exit codes: 0 done, 1 refused or failed, 2 called wrongly.',
  ].join('\n')

function findCommand(words: readonly string[]): { command: Command; rest: string[] } {
  for (const command of commands) {
    const name = command.name.split(' ')
    if (name.every((word, place) => words[place] === word)) return { command, rest: words.slice(name.length) }
  }
  throw new UsageError(words.length === 0 ? 'Which command?' : `Unknown command: ${words.slice(0, 2).join(' ')}`)
}

function readArguments(command: Command, rest: string[]): Arguments & { isJson: boolean } {
  const options = Object.entries({ ...command.options, json: 'switch' }).map(([name, kind]) => [
    name,
    kind === 'switch' ? { type: 'boolean' } : { type: 'string', multiple: true },
  ])
  const { values, positionals } = parseOrRefuse(rest, Object.fromEntries(options) as ParseOptions)
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
    isJson: values.json === true,
  }
}

type ParseOptions = NonNullable<Parameters<typeof parseArgs>[0]>['options']

function parseOrRefuse(args: string[], options: ParseOptions) {
  try {
    return parseArgs({ args, options: options ?? {}, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

async function main(words: string[]): Promise<void> {
  if (words.length === 0 || words.includes('--help')) {
    stdout.write(`${help()}\n`)
    return
  }
  const { command, rest } = findCommand(words)
  const args = readArguments(command, rest)
  const logger = createLogger('idp', 'warn', stderr)
  const config = loadConfig(env)
  if (config.MIGRATE_ON_START || command === migrateCommand) await migrate(config)
  const { deps, close } = await compose(config, { logger })
  try {
    const { json, text } = await command.run(deps, args)
    stdout.write(`${args.isJson ? JSON.stringify(json) : text}\n`)
  } finally {
    await close()
  }
}

try {
  await main(argv.slice(2))
} catch (error) {
  if (error instanceof UsageError) {
    stderr.write(`${error.message}. See --help.\n`)
    exit(2)
  }
  stderr.write(`${error instanceof ApiError ? error.message : startupFailure(error)}\n`)
  exit(1)
}
