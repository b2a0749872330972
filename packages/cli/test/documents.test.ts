import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { unless } from '@platform/test-runner/task-meta'
import { approveDevice } from '@platform/testkit/approve-device'
import { everyScope, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { visit } from '../../../services/api/test/deploy.ts'
import { newOwner } from '../../../services/api/test/scenario.ts'
import { exitCodes, reasons } from '../src/exit-codes.ts'
import { type Manifest, manifestOf } from '../src/manifest.ts'
import { createProgram, typedLine } from '../src/program.ts'
import { builtCommandLine, PATH } from './built.ts'
import { type DocumentPath, writtenDocuments } from './documents.ts'
import { startPlatformForSignIns } from './sign-ins.ts'
import { type Ended, endedWith, newTerminal, signedInTerminal, wordsOf } from './terminal.ts'

const home = resolve(import.meta.dirname, '..')
const repository = resolve(home, '../..')

const read = (path: DocumentPath) => readFile(join(repository, path), 'utf8')
const page = await read('docs/cli.md')
const agents = await read('packages/cli/agents.md')
const index = await read('packages/cli/llms.txt')

let work: string
let clients: string
let server: TestPlatform
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'cli-documents-'))
  clients = (await builtCommandLine()).folder
  server = await startPlatformForSignIns({ hasWorker: true, env: { CLIENTS_FOLDER: clients } })
})
afterAll(async () => {
  await server.close()
  await rm(work, { recursive: true })
})

const missing = ['bash', 'curl', 'git'].filter(
  (name) => !PATH.split(delimiter).some((folder) => existsSync(join(folder, name))),
)
const obstacle = missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined

/** Runs lines in bash, which ends at the first that fails. There is no terminal, and of this process's environment only PATH. */
async function bash(script: string, { cwd, ...more }: { cwd: string; [variable: string]: string }): Promise<Ended> {
  const shell = spawn('bash', ['-e', '-c', script], { cwd, env: { PATH, ...more }, stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr), once(shell, 'close')])
  return endedWith(shell.exitCode ?? -1, stdout, stderr)
}

/** Commands that do something, by what is typed. */
const commandsOf = (program: CommandUnknownOpts, above: readonly string[] = []): [string, CommandUnknownOpts][] =>
  program.commands.flatMap((command) => {
    const words = [...above, command.name()]
    return command.commands.length === 0 ? [[words.join(' '), command]] : commandsOf(command, words)
  })

/** Reads a line without doing anything. Resolves to the command that would be run. Throws what commander says of a wrong line. */
async function parse(line: string): Promise<string | undefined> {
  const program = createProgram(async () => {})
  let name: string | undefined
  program.hook('preAction', (_, action) => {
    name = commandsOf(program).find(([, command]) => command === action)?.[0]
  })
  const stayQuiet = (command: CommandUnknownOpts): void => {
    command.exitOverride().configureOutput({ writeErr: () => {} })
    command.commands.forEach(stayQuiet)
  }
  stayQuiet(program)
  await program.parseAsync(wordsOf(line), { from: 'user' })
  return name
}

/** What stands behind the name of our program in the code of a page. */
const linesOf = (markdown: string): string[] =>
  [...markdown.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = '']) =>
    [...block.matchAll(/(?:^|\| )(?:platform|node ~\/platform\.mjs) ((?:'[^']*'|[^'\n#])+)/gm)].map(
      ([, line = '']) => line,
    ),
  )

test('the documents are what `npm run cli-docs` writes', async () => {
  for (const [path, written] of await writtenDocuments()) {
    expect(await read(path), path).toBe(written)
    expect(written.split('\n').filter((line) => line.length > 140 && !line.startsWith('|'))).toEqual([])
    expect(written).not.toContain(repository)
  }
})

test('help --json has every command, flag and exit code, and examples of each command that can be typed', async () => {
  const terminal = await newTerminal(server)
  const { stdout } = await promisify(execFile)(process.execPath, [join(clients, 'platform.mjs'), 'help', '--json'])
  const { data } = JSON.parse(stdout) as { data: Manifest }
  const program = createProgram(async () => {})
  const namesAndFlags = commandsOf(program).map(([name, command]) => [name, command.options.map(({ flags }) => flags)])
  expect(data.commands.map(({ command, flags }) => [command, flags.map((flag) => flag.flags)])).toEqual(namesAndFlags)
  expect(data.globalFlags.map(({ flags }) => flags)).toEqual([...program.options.map(({ flags }) => flags), '--help'])
  expect(data.exitCodes.map(({ code, meaning }) => [String(code), meaning])).toEqual(Object.entries(exitCodes))
  expect(data.exitCodes.flatMap((each) => each.reasons.map((reason) => [reason, each.code]))).toEqual(
    Object.entries(reasons),
  )
  const scopes = data.commands.find(({ command }) => command === 'login')?.flags ?? []
  expect(scopes.filter(({ isRepeatable }) => isRepeatable).map(({ flags }) => flags)).toEqual(['--scope <scope>'])
  for (const { command, examples } of data.commands) {
    expect([command, examples.length]).not.toEqual([command, 0])
    for (const example of examples)
      expect([example.command, await parse(example.command.replace(/^.*\| platform /, ''))]).toEqual([
        example.command,
        command,
      ])
    const { document } = await terminal.json(`help ${command}`)
    expect(document.data.commands).toMatchObject([{ command }])
  }
})

test('the documents have every command, and the page all of their flags and examples', () => {
  const { commands, globalFlags, exitCodes: codes } = manifestOf(createProgram(async () => {}))
  const sections = new Map(page.split(/^### /m).map((section) => [section.split('\n', 1)[0] ?? '', section]))
  for (const { flags, description } of globalFlags) expect(page).toContain(`| \`${flags}\` | ${description}`)
  for (const { command, description, flags, arguments: args, examples } of commands) {
    const section = sections.get(command) ?? ''
    for (const each of [...flags, ...args]) expect(section).toContain(each.description)
    for (const each of flags) for (const part of [each.flags, ...each.choices]) expect(section).toContain(`\`${part}\``)
    for (const each of examples) expect(section).toContain(`# ${each.does}\n${typedLine(each.command)}\n`)
    expect(section).toContain(description)
    expect(agents).toMatch(new RegExp(`^- \`${command}[^\`]*\`: `, 'm'))
    expect(index.replaceAll('\n', ' ')).toMatch(new RegExp(` \`${command}\`[,.]`))
  }
  for (const { code, meaning, reasons: words } of codes)
    for (const text of [page, agents])
      expect(text).toContain(`| ${code} | ${meaning} | ${words.map((word) => `\`${word}\``).join(', ')} |`)
})

test('each link within the page leads to one heading', () => {
  const headings = [...page.matchAll(/^##+ (.+)$/gm)].map(([, title = '']) => title.toLowerCase().replaceAll(' ', '-'))
  expect(headings.length).toBe(new Set(headings).size)
  const links = [...page.matchAll(/\]\(#([\w-]+)\)/g)].map(([, anchor = '']) => anchor)
  expect(links.filter((anchor) => !headings.includes(anchor))).toEqual([])
})

test('every line of ours in the documents can be typed', async () => {
  const lines = [...linesOf(page), ...linesOf(agents)]
  expect(lines.length).toBeGreaterThan(60)
  for (const line of lines) expect([line, await parse(line)]).toEqual([line, expect.any(String)])
})

test('the documents link to what the platform serves, and install nothing from a registry', async () => {
  const texts = [page, agents, index]
  const checksums = await (await fetch(`${server.apiUrl}/docs/clients/checksums.txt`)).text()
  const [packed = ''] = /cli-[\w.-]+\.tgz/.exec(checksums) ?? []
  const named = texts.flatMap((each) => each.match(/(?<=\{base_url\}|\]\()\/docs[\w./{}-]*/g) ?? [])
  const paths = [...new Set(named)].map((path) => path.replace('cli-{version}-{hash}.tgz', packed))
  expect(paths).toEqual(
    expect.arrayContaining([
      '/docs/clients/agents.md',
      '/docs/clients/platform.mjs',
      `/docs/clients/${packed}`,
      '/docs/json',
    ]),
  )
  for (const path of paths) expect([path, (await fetch(server.apiUrl + path)).status]).toEqual([path, 200])
  const installs = texts.flatMap(
    (each) => each.match(/\b(?:npx|(?:npm|pnpm|yarn) (?:i|install|add|exec|dlx))\b.*/g) ?? [],
  )
  expect(installs).toEqual([
    expect.stringMatching(/^npx \{base_url\}\/docs\/clients\/cli-\{version\}-\{hash\}\.tgz login /),
    expect.stringMatching(/^npm i -g`\. No name in a public registry belongs to this platform/),
  ])
})

describe('what is typed', unless(obstacle), () => {
  test('the lines of agents.md alone, in their order, sign in, create, deploy, tell why it failed, set variables and go back', async () => {
    const person = await server.person()
    const token = await person.token(everyScope)
    const call = async (on: string) => (await server.call(token, on)).body
    await server.call(token, 'POST /organizations', { name: 'Shops' })
    const machine = await newTerminal(server)
    const project = await machine.folder('project', { 'index.html': 'one' })

    const sections = new Map(
      agents.split(/^#+ /m).map((section) => {
        const [title = '', ...rest] = section.split('\n')
        return [title, /^```sh\n(.*?)^```$/ms.exec(rest.join('\n'))?.[1]?.trim().split('\n') ?? []]
      }),
    )
    const placeholders = new Map([['{base_url}', server.apiUrl]])
    /** Our program runs in this process: one for each line would take half of the test's CPU. Everything else is bash's. */
    async function type(line: string): Promise<Ended> {
      const typed = line.replace(/\{\w+\}/g, (name) => placeholders.get(name) ?? name)
      const [, feed, ours] = /^(?:(.+) \| )?node ~\/platform\.mjs (.+)$/.exec(typed) ?? []
      const inBash = (script: string) => bash(script, { cwd: project, HOME: machine.home, DB_PASSWORD: 'secret' })
      if (ours === undefined) return inBash(typed)
      const stdin = feed === undefined ? '' : (await inBash(feed)).stdout
      return machine.run(ours, { cwd: project, stdin, env: { PLATFORM_API_URL: undefined } })
    }
    /** Runs the lines below a title. Those that have an exit code here may fail. */
    async function follow(title: string, codes: Record<number, number> = {}): Promise<Ended[]> {
      const ended: Ended[] = []
      for (const [at, line] of (sections.get(title) ?? []).entries()) {
        const end = await type(line)
        expect([line, end.code, end.stderr]).toEqual([line, codes[at] ?? 0, expect.any(String)])
        const { data } = end.document
        const id: unknown = Array.isArray(data) ? data[0]?.id : data?.id
        if (typeof id === 'string') placeholders.set('{deployment}', id)
        ended.push(end)
      }
      expect([title, ended.length]).not.toEqual([title, 0])
      return ended
    }
    const dataOf = (ended: readonly Ended[]) => ended.at(-1)?.document.data
    const changeFile = (path: string, content: string) => machine.folder('project', { [path]: content })

    // Get the program.
    await follow('The platform for coding agents')
    const fetched = await readFile(join(machine.home, 'platform.mjs'))
    expect(fetched.equals(await readFile(join(clients, 'platform.mjs')))).toBe(true)

    // Sign me in.
    const [begin = '', finish = ''] = sections.get('Sign in') ?? []
    const begun = await type(begin)
    expect([begun.code, begun.document.status]).toEqual([8, 'action_required'])
    const { url, userCode } = begun.document.data as { url: string; userCode: string }
    await approveDevice({ completeUrl: url, userCode }, person)
    expect((await type(finish)).document).toMatchObject({ status: 'ok', data: { user: { email: person.email } } })

    // Create an application "shop" for this folder.
    const { applicationId } = dataOf(await follow('Create an application and link the folder'))
    expect((await call('GET /applications')).items).toMatchObject([{ id: applicationId, name: 'shop' }])

    // Deploy it.
    const [planned, deployed] = await follow('Deploy')
    expect(planned?.document.data.paths).toEqual(['index.html', '.gitignore'].toSorted())
    const first = deployed?.document.data as { id: string; url: string }
    const page = async ({ url }: { url: string }) => (await visit(server, new URL(url).host)).text
    expect(await page(first)).toBe('one')

    // It does not deploy any more: why?
    await changeFile('.vercel/output/config.json', '{"version":2}')
    const failed = (await follow('Deploy', { 1: 6 })).at(-1)?.document
    expect(failed).toMatchObject({ status: 'error', reason: 'deployment_failed' })
    const { failureReason } = await call(`GET /deployments/${failed?.data.id}`)
    const [list, inspected, log] = await follow('Read why a deployment failed')
    expect(list?.document.data).toMatchObject([{ id: failed?.data.id }])
    expect(inspected?.document.data).toMatchObject({ id: failed?.data.id, failureReason })
    expect(log?.events.map(({ message }) => message)).toContain(failureReason)
    await rm(join(project, '.vercel'), { recursive: true })

    // Set GREETING to hello, and the password that is in my environment.
    await changeFile('index.html', 'two')
    const second = dataOf(await follow('Set a variable'))
    expect((await call(`GET /applications/${applicationId}/env-vars`)).items).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          key: 'GREETING',
          value: 'hello',
          scope: 'environment',
          environmentName: 'Production',
        }),
        expect.objectContaining({ key: 'DB_PASSWORD', value: null, sensitive: true, scope: 'application' }),
      ]),
    )
    expect([await page(second), (await call(`GET /deployments/${second.id}`)).isCurrent]).toEqual(['two', true])

    // Roll back.
    expect(dataOf(await follow('Roll back'))).toMatchObject({ id: first.id })
    expect((await call(`GET /deployments/${first.id}`)).isCurrent).toBe(true)
    expect((await call(`GET /deployments/${second.id}`)).isCurrent).toBe(false)

    // What was requested?
    await visit(server, new URL(first.url).host, '/missing')
    const paths = (items: { request: { path: string } }[]) => items.map(({ request }) => request.path)
    await expect
      .poll(async () => paths((await call(`GET /applications/${applicationId}/requests`)).items))
      .toContain('/missing')
    const [requests] = await follow('See what was requested and printed')
    expect(paths(requests?.events ?? [])).toContain('/missing')

    // Call the API.
    const created = dataOf(await follow('Call any operation of the API'))
    expect(await call(`GET /organizations/${created.id}`)).toMatchObject({ name: 'Acme' })
  })

  test.each([
    ['GitHub Actions', /^ +- run: (.+)$/gm],
    ['GitLab CI', /^ +- (?!if:)(.+)$/gm],
  ])('the recipe for %s deploys a checkout, with a key that can do nothing else', async (service, command) => {
    const owner = await newOwner(server)
    const machine = await signedInTerminal(server, owner.person)
    const [create = ''] = linesOf(page).filter((line) => line.includes('POST /api-keys'))
    const { data: key } = (await machine.json(create.replace('{application}', owner.applicationId))).document
    expect(key).toMatchObject({ scopes: ['network:deployments:trigger', 'network:deployments:read'] })

    const checkout = await machine.folder('checkout', { 'index.html': service })
    const HOME = await machine.folder('runner')
    const git = 'git -c user.name=Ana -c user.email=ana@example.com -c init.defaultBranch=main'
    const { stdout: head } = await bash(
      `${git} init -q && ${git} add . && ${git} commit -qm 'Say it' && git rev-parse HEAD`,
      { cwd: checkout, HOME },
    )

    const [, recipe = ''] = new RegExp(`^${service}.*?\`\`\`yaml\n(.*?)^\`\`\``, 'ms').exec(page) ?? []
    const commands = [...recipe.matchAll(command)].map(([, line = '']) => line)
    expect(commands).toHaveLength(2)
    const { code, stdout, stderr } = await bash(commands.join('\n'), {
      cwd: checkout,
      HOME,
      CI: 'true',
      PLATFORM_API_URL: server.apiUrl,
      PLATFORM_CLIENT_ID: key.id,
      PLATFORM_CLIENT_SECRET: key.secret,
    })
    expect([code, stdout, stderr]).toEqual([0, expect.stringMatching(/^http\S+\n$/), expect.any(String)])
    const { host } = new URL(stdout.trim())
    expect((await visit(server, host)).text).toBe(service)
    const { items } = (await server.call(owner.token, `GET /deployments?applicationId=${owner.applicationId}`)).body
    expect(items).toMatchObject([
      {
        status: 'ACTIVE',
        isCurrent: true,
        git: { commit: head.trim(), message: 'Say it', branch: 'main', isDirty: false },
      },
    ])
    const { items: files } = (await server.call(owner.token, `GET /deployments/${items[0].id}/files`)).body
    expect(files.map((file: { path: string }) => file.path)).toEqual(['index.html'])
  })
})
