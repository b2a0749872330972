import { type CommandUnknownOpts, Command, Option } from '@commander-js/extra-typings'
import { apiVersion } from '@platform/sdk'
import type { Context } from './context.ts'
import { exitCodes } from './exit-codes.ts'
import type { Outcome } from './outcome.ts'
import { collected, count, instant, oneOf } from './values.ts'

/** A command as it is typed, after the name of the program. */
export interface Example {
  command: string
  does: string
}

const examples = new WeakMap<object, readonly Example[]>()
export const examplesOf = (command: object): readonly Example[] => examples.get(command) ?? []

/** Does the work of a command, and keeps how it ended. */
export type Run = (work: (context: Context) => Promise<Outcome>) => Promise<void>

/** Choices for the help; `oneOf` checks them, and knows what was meant. */
const choice = <const T extends string>(flags: string, description: string, ...words: T[]) =>
  new Option(flags, description).choices(words).argParser(oneOf(...words))

const environment = () => choice('--env <environment>', 'the environment', 'production', 'preview')

const app = [
  '--app <application>',
  'the application: its id, its slug or organization/slug; default: the linked one',
] as const
const org = ['--org <organization>', 'the organization: its id or slug'] as const
const limit = ['--limit <count>', 'as many at most', count] as const

const statuses = ['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'ACTIVE', 'FAILED'] as const
const levels = ['DEBUG', 'INFO', 'WARN', 'ERROR'] as const
const layers = ['organization', 'application', 'environment'] as const

/** A flag that is off unless it is given needs no word about it. */
const asHelp = {
  showGlobalOptions: true,
  optionDescription: (option: Option): string =>
    [
      option.description,
      option.argChoices && `one of ${option.argChoices.join(', ')}`,
      typeof option.defaultValue === 'string' && `default: ${option.defaultValue}`,
    ]
      .filter(Boolean)
      .join('; '),
}

/** An example as it is typed: one with a pipe in it has the name of the program already. */
export const typedLine = (command: string): string =>
  command.includes('| platform ') ? command : `platform ${command}`

const exitText = `\nExit codes:\n${Object.entries(exitCodes)
  .map(([code, meaning]) => `  ${code.padEnd(5)}${meaning}`)
  .join('\n')}\n`

/** The commands, their flags and examples: the one place that knows all of them. What they do is imported when it is run. */
export function createProgram(run: Run): CommandUnknownOpts {
  const program = new Command('platform')
    .description('The platform from a terminal: deploy, look, configure.')
    .version(`platform ${apiVersion}`, '--version', 'print the version')
    .helpOption('--help', 'show help')
    .option('--json', 'print one JSON document on stdout, also on failure', false)
    .option('--url <address>', 'the address of the platform; default: $PLATFORM_API_URL, else the profile’s')
    .option('--profile <name>', 'the sign-in to use; default: the one in use')
    .option('--quiet', 'print the result alone', false)
    .option('--verbose', 'print each request: method, path, status, request id, milliseconds', false)
    .option('--no-color', 'print without colours')
    .option('--non-interactive', 'ask nothing, also in a terminal', false)
    .option('--yes', 'do without asking what cannot be undone', false)
    .helpCommand(false)
    .configureHelp(asHelp)
    .addHelpText('after', exitText)

  const command = (name: string, description: string, ...shown: [command: string, does: string][]) => {
    const made = new Command(name.split(' ')[0])
      .description(description)
      .helpOption('--help', 'show help')
      .helpCommand(false)
    const listed = shown.map(([typed, does]) => ({ command: typed, does }))
    examples.set(made, listed)
    const text = listed.map((each) => `  ${typedLine(each.command)}\n      ${each.does}`).join('\n')
    if (text) made.addHelpText('after', `\nExamples:\n${text}`)
    return made.configureHelp(asHelp)
  }
  const add = (parent: CommandUnknownOpts, child: CommandUnknownOpts) => {
    if (child.commands.length === 0) child.addHelpText('after', exitText)
    parent.addCommand(child)
  }
  const group = (name: string, description: string) => command(name, description)

  add(
    program,
    command(
      'login',
      'Sign in, by a code that is approved in a browser on any device',
      ['login', 'sign in: prints an address and a code, and waits for the approval'],
      ['login --resume', 'finish a sign-in that began without a terminal'],
      ['login --url https://api.example.com', 'sign in at another platform'],
      ['login --read-only', 'sign in for looking alone'],
    )
      .option('--browser', 'sign in by a redirect to this machine instead of a code', false)
      .option('--scope <scope>', 'a further scope, such as platform:api_keys:write; may be repeated', collected)
      .option('--read-only', 'ask for scopes to read alone', false)
      .option('--no-open', 'open no browser')
      .option('--resume', 'finish the sign-in that was begun without a terminal', false)
      .action((options) => run(async (context) => (await import('./commands/login.ts')).login(context, options))),
  )
  add(
    program,
    command('logout', 'Sign out, and revoke the sign-in', ['logout', 'sign out of the platform in use']).action(() =>
      run(async (context) => (await import('./commands/logout.ts')).logout(context)),
    ),
  )
  add(
    program,
    command('whoami', 'Show which platform is used, and as whom', [
      'whoami --json',
      'who is signed in, as JSON',
    ]).action(() => run(async (context) => (await import('./commands/whoami.ts')).whoami(context))),
  )
  add(
    program,
    command('use', 'Use another sign-in from now on', ['use work', 'use the profile "work"'])
      .argument('<profile>', 'its name')
      .action((name) => run(async (context) => (await import('./commands/use.ts')).use(context, name))),
  )
  add(
    program,
    command(
      'link',
      'Link a folder to an application',
      ['link --app acme/shop', 'link this folder to an application'],
      ['link --create shop', 'create an application and link this folder to it'],
    )
      .argument('[folder]', 'default: this one')
      .option(...app)
      .option('--create <name>', 'create the application')
      .option(...org)
      .action((folder, options) =>
        run(async (context) => (await import('./commands/link.ts')).link(context, { folder, ...options })),
      ),
  )
  add(
    program,
    command('unlink', 'Remove the link of a folder', ['unlink', 'remove the link of this folder'])
      .argument('[folder]', 'default: this one')
      .action((folder) => run(async (context) => (await import('./commands/link.ts')).unlink(context, folder))),
  )
  add(
    program,
    command(
      'deploy',
      'Deploy a folder as it is, with changes that are not committed',
      ['deploy', 'deploy this folder to production'],
      ['deploy dist --preview', 'deploy the folder dist to preview'],
      ['deploy --dry-run --json', 'list what would be sent and what left out, without a request'],
      ['deploy --app acme/shop --json', 'deploy without a link, and answer JSON'],
    )
      .argument('[folder]', 'default: this one')
      .option(...app)
      .option('--prod', 'to production, which is the default', false)
      .option('--preview', 'to preview', false)
      .option('--prebuilt', 'send .vercel/output and what its Functions name alone', false)
      .option('--dry-run', 'show what would be sent, and send nothing', false)
      .option('--include <path>', 'send this too, though it would be left out; may be repeated', collected)
      .option('--no-wait', 'end once everything is sent')
      .action((folder, options) =>
        run(async (context) => (await import('./commands/deploy.ts')).deploy(context, { folder, ...options })),
      ),
  )
  add(
    program,
    command('deployments', 'List deployments, newest first', [
      'deployments --env production --limit 5',
      'the last five of production',
    ])
      .option(...app)
      .addOption(environment())
      .addOption(choice('--status <status>', 'those in this state', ...statuses))
      .option(...limit)
      .action((options) =>
        run(async (context) => (await import('./commands/deployments.ts')).listOf(context, options)),
      ),
  )
  add(
    program,
    command('inspect', 'Show a deployment with its files, Functions and crons', [
      'inspect 0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10 --json',
      'why it failed, and what is in it',
    ])
      .argument('<id>', 'of the deployment')
      .action((id) => run(async (context) => (await import('./commands/deployments.ts')).inspect(context, id))),
  )
  add(
    program,
    command('promote', 'Serve a deployment at the address of its environment', [
      'promote 0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
      'make it the current one',
    ])
      .argument('<id>', 'of the deployment')
      .action((id) => run(async (context) => (await import('./commands/deployments.ts')).promote(context, id))),
  )
  add(
    program,
    command(
      'rollback',
      'Go back to the deployment before the current one, with its variables',
      ['rollback', 'go back in production'],
      ['rollback 0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10', 'go back to this one'],
    )
      .argument('[id]', 'of a deployment; default: the one before the current one')
      .option(...app)
      .addOption(environment())
      .action((id, options) =>
        run(async (context) => (await import('./commands/deployments.ts')).rollback(context, { id, ...options })),
      ),
  )
  add(
    program,
    command('cancel', 'Cancel a deployment that is not active yet', [
      'cancel 0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
      'stop its build',
    ])
      .argument('<id>', 'of the deployment')
      .action((id) => run(async (context) => (await import('./commands/deployments.ts')).cancel(context, id))),
  )
  add(
    program,
    command('open', 'Open the address of an application or a deployment', ['open --env preview', 'open the preview'])
      .argument('[id]', 'of a deployment; default: the current one')
      .option(...app)
      .addOption(environment())
      .action((id, options) =>
        run(async (context) => (await import('./commands/deployments.ts')).open(context, { id, ...options })),
      ),
  )
  add(
    program,
    command(
      'logs',
      'Show what Functions print, what a build says, or what was requested',
      ['logs --follow', 'what the Functions of the application print, as they do'],
      ['logs 0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10 --build', 'why a build failed'],
      ['logs --requests --since 10m', 'what was requested in the last ten minutes'],
      ['logs --level ERROR --since 1d --json', 'the errors of a day, as JSON lines'],
    )
      .argument('[id]', 'of a deployment; default: all of the application')
      .option(...app)
      .addOption(environment())
      .option('--build', 'the log of the build; without an id, of the newest deployment', false)
      .option('--requests', 'requests instead of lines', false)
      .option('--follow', 'go on with what comes', false)
      .option('--since <time>', 'from then on: 30s, 10m, 2h, 1d, or an instant', instant)
      .addOption(choice('--level <level>', 'lines of this level', ...levels))
      .option('--search <text>', 'lines with this text')
      .option('--request <id>', 'lines that were printed while answering this request')
      .option('--limit <count>', 'as many at most, the newest; default: 100, or all with --since', count)
      .action((id, options) =>
        run(async (context) => (await import('./commands/logs.ts')).logs(context, { id, ...options })),
      ),
  )

  const layer = () =>
    choice('--layer <layer>', 'the layer; default: environment with --env, else application', ...layers)
  const env = group('env', 'Environment variables')
  add(
    env,
    command('ls', 'List variables', ['env ls', 'every variable, of all layers'])
      .option(...app)
      .addOption(environment())
      .addOption(choice('--layer <layer>', 'those of this layer', ...layers))
      .action((options) => run(async (context) => (await import('./commands/env.ts')).listOf(context, options))),
  )
  add(
    env,
    command(
      'set',
      'Create or change a variable',
      ['env set LOG_LEVEL debug --env preview', 'set it in preview'],
      [
        'printf \'%s\' "$PASSWORD" | platform env set DB_PASSWORD --sensitive',
        'set a secret from stdin; it is never shown again',
      ],
      ['env set TLS_KEY --from-file key.pem --sensitive', 'set it to what a file holds'],
    )
      .argument('<key>', 'its name')
      .argument('[value]', 'default: what stdin holds, byte for byte')
      .option(...app)
      .addOption(environment())
      .addOption(layer())
      .option('--from-file <path>', 'take the value from a file, byte for byte')
      .option('--sensitive', 'a value that is never shown again', false)
      .action((key, value, options) =>
        run(async (context) => (await import('./commands/env.ts')).set(context, { key, value, ...options })),
      ),
  )
  add(
    env,
    command('rm', 'Delete a variable', ['env rm LOG_LEVEL --env preview --yes', 'delete it from preview'])
      .argument('<key>', 'its name')
      .option(...app)
      .addOption(environment())
      .addOption(layer())
      .action((key, options) =>
        run(async (context) => (await import('./commands/env.ts')).remove(context, { key, ...options })),
      ),
  )
  add(
    env,
    command('pull', 'Write the variables of an environment into a file, without sensitive ones', [
      'env pull .env.local',
      'write those of preview',
    ])
      .argument('[file]', 'default: .env.local')
      .option(...app)
      .addOption(environment().default('preview' as const))
      .action((file, options) =>
        run(async (context) => (await import('./commands/env.ts')).pull(context, { file, ...options })),
      ),
  )
  add(
    env,
    command(
      'push',
      'Set the variables of a file in an environment, and delete none',
      ['env push .env.local --dry-run', 'show what would change in preview'],
      ['env push .env.local --env production', 'set them in production'],
    )
      .argument('[file]', 'default: .env.local')
      .option(...app)
      .addOption(environment().default('preview' as const))
      .option('--prune', 'delete variables of the environment that the file does not have; sensitive ones stay', false)
      .option('--dry-run', 'show the difference, and change nothing', false)
      .action((file, options) =>
        run(async (context) => (await import('./commands/env.ts')).push(context, { file, ...options })),
      ),
  )
  add(
    env,
    command('run', 'Run a command with the variables of an environment; nothing is written', [
      'env run -- npm run dev',
      'with those of preview',
    ])
      .argument('<command...>', 'behind "--"')
      .option(...app)
      .addOption(environment().default('preview' as const))
      .action((words, options) =>
        run(async (context) => (await import('./commands/env-run.ts')).runWith(context, { words, ...options })),
      ),
  )
  add(program, env)

  const apps = group('apps', 'Applications')
  add(
    apps,
    command('ls', 'List applications', ['apps ls', 'every application in reach'])
      .option(...org)
      .option(...limit)
      .action((options) => run(async (context) => (await import('./commands/apps.ts')).listOf(context, options))),
  )
  add(
    apps,
    command('create', 'Create an application', ['apps create shop --org acme', 'create one in the organization acme'])
      .argument('<name>', 'its name')
      .option(...org)
      .action((name, options) =>
        run(async (context) => (await import('./commands/apps.ts')).create(context, { name, ...options })),
      ),
  )
  add(program, apps)

  const orgs = group('orgs', 'Organizations')
  add(
    orgs,
    command('ls', 'List organizations', ['orgs ls', 'every organization that you are a member of'])
      .option(...limit)
      .action((options) => run(async (context) => (await import('./commands/orgs.ts')).listOf(context, options))),
  )
  add(
    orgs,
    command('create', 'Create an organization', ['orgs create Acme', 'create one, and own it'])
      .argument('<name>', 'its name')
      .action((name) => run(async (context) => (await import('./commands/orgs.ts')).create(context, name))),
  )
  add(program, orgs)

  const hostname = group('hostname', 'The address of production')
  add(
    hostname,
    command('get', 'Show the addresses of an application', ['hostname get', 'those of the linked application'])
      .option(...app)
      .action((options) => run(async (context) => (await import('./commands/hostname.ts')).get(context, options))),
  )
  add(
    hostname,
    command('set', 'Choose the label of production', ['hostname set my-shop', 'serve production at my-shop'])
      .argument('<label>', 'the first part of the hostname')
      .option(...app)
      .action((label, options) =>
        run(async (context) => (await import('./commands/hostname.ts')).set(context, { label, ...options })),
      ),
  )
  add(program, hostname)

  add(
    program,
    command(
      'api',
      'Call any operation of the API, signed in',
      ['api GET /organizations', 'the answer as it is'],
      ['api GET /applications --paginate', 'the items of all pages'],
      [`api POST /organizations --body '{"name":"Acme"}'`, 'create something'],
    )
      .argument('<method>', 'GET, POST, PUT, PATCH or DELETE')
      .argument('<path>', 'such as /applications?limit=5')
      .option('--body <json>', 'the body; "-" takes it from stdin')
      .option('--paginate', 'the items of all pages of a list', false)
      .option('--org <organization>', 'whose inference it is: its id or slug; default: the linked one')
      .action((method, path, options) =>
        run(async (context) => (await import('./commands/api.ts')).api(context, { method, path, ...options })),
      ),
  )
  add(
    program,
    command(
      'help',
      'Show help; with --json every command, flag, exit code and example',
      ['help --json', 'the manifest'],
      ['help env set', 'the help of a command'],
    )
      .argument('[command...]', 'a command')
      .action((words) => run(async (context) => (await import('./commands/help.ts')).help(context, program, words))),
  )
  return program
}
