import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unless } from '@platform/test-runner/task-meta'
import { isDrill } from '@platform/testkit/test-environment'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findTestObstacle } from '../../sandbox/src/test-obstacle.ts'
import { retireDeployment } from '../../../services/api/src/areas/deploy/deployments/retirement.ts'
import { setQuota } from '../../../services/api/src/areas/tenancy/products/quotas.ts'
import { deploy as deployFiles, visit } from '../../../services/api/test/deploy.ts'
import { untilEnded } from '../../../services/api/test/deployments.ts'
import { newKey, newOwner, type Owner, unique } from '../../../services/api/test/scenario.ts'
import { mainPath, startProgram } from './cli-process.ts'
import { type Ended, type Given, newTerminal, signedInTerminal, type Terminal } from './terminal.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit'])

let server: TestPlatform
let owner: Owner
let terminal: Terminal
beforeAll(async () => {
  server = await startPlatform({ hasWorker: true, env: { BUILD_EGRESS: 'none' } })
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
})
afterAll(() => server.close())

interface Application {
  id: string
  slug: string
}

/** Another application of the owner. */
async function newApplication(
  { token, organizationId }: Owner = owner,
  name = `Shop ${unique()}`,
): Promise<Application> {
  const made = await server.call(token, 'POST /applications', { organizationId, name })
  return made.body as Application
}

/** A folder that is linked to an application of its own. */
async function newProject(
  files: Record<string, string | Buffer> = {},
): Promise<{ cwd: string; applicationId: string }> {
  const { id: applicationId } = await newApplication()
  const project = JSON.stringify({ organizationId: owner.organizationId, applicationId })
  return {
    cwd: await terminal.folder(`project-${unique()}`, { '.platform/project.json': project, ...files }),
    applicationId,
  }
}

/** A deployment of one page, as the worker leaves it behind. Returns its id. */
async function newDeployment(
  applicationId: string,
  environment: 'production' | 'preview' = 'production',
): Promise<string> {
  const place = { organizationId: owner.organizationId, applicationId }
  return (await deployFiles(server, place, { files: { 'index.html': 'first' }, environment })).id
}

/** A fetch that keeps what is sent. before: settles before a request goes out. */
function recordingFetch(
  before: (sent: string, signal: AbortSignal | null | undefined) => Promise<unknown> | undefined = () => undefined,
) {
  const sent: string[] = []
  return {
    sent,
    async fetch(input: string | URL | Request, init?: RequestInit) {
      const request = `${init?.method ?? 'GET'} ${new URL(input as string).pathname}`
      sent.push(request)
      await before(request, init?.signal)
      return fetch(input, init)
    },
  }
}

const untilAborted = (signal: AbortSignal | null | undefined): Promise<void> =>
  new Promise((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }))

const pageOf = async (address: string, path = '/'): Promise<string> =>
  (await visit(server, new URL(address).host, path)).text

// oxlint-disable-next-line typescript/no-explicit-any -- of every shape
const deploymentOf = async (id: string): Promise<any> => (await server.call(owner.token, `GET /deployments/${id}`)).body

/** Runs a command as it is printed in `next`. */
const runAsPrinted = (ended: Ended, index: number, given?: Given): Promise<Ended> =>
  terminal.run(ended.document.next[index]?.command.replace(/^platform /, '') ?? '', given)

/** What is printed in `next`, without the flag that asks for it. */
const nextOf = ({ document }: Ended): string[] => document.next.map(({ command }) => command.replace(' --json', ''))

describe('deploy of a folder', () => {
  test('a deployed folder is served at the last line of stdout, and the rollback that the next one names goes back, with its variables', async () => {
    const { cwd, applicationId } = await newProject({ 'index.html': 'one', '.env': 'SECRET=1' })
    const label = `shop-${unique()}`
    await terminal.run(`hostname set ${label}`, { cwd })
    await terminal.run('env set MOTTO one', { cwd })
    const first = await terminal.run('deploy', { cwd })
    expect([first.code, first.stdout.split('\n').length]).toEqual([0, 2])
    expect(await pageOf(first.stdout.trim())).toBe('one')
    expect(first.stderr).toMatch(/^1 file, 3 B\nLeft out: \.env \(may hold secrets, by its name\)\n/m)
    const [before] = (await terminal.json('deployments', { cwd })).document.data
    // There is nothing to go back to yet.
    expect(first.stderr).not.toContain('rollback')

    await writeFile(join(cwd, 'index.html'), 'two')
    await terminal.run('env set MOTTO two', { cwd })
    const second = await terminal.json('deploy', { cwd })
    const { data } = second.document
    expect(data).toMatchObject({ status: 'ACTIVE', isCurrent: true, files: 1, bytes: 3, applicationId })
    expect(data.left.map(({ path }: { path: string }) => path)).toEqual(['.env', '.platform'])
    const production = `http://${label}.${server.api.appsUrl.host}`
    expect(data.addresses).toEqual([data.url, production])
    await expect.poll(() => pageOf(production)).toBe('two')

    expect(nextOf(second)).toEqual([`platform rollback --app ${applicationId} --env production`])
    const back = await runAsPrinted(second, 0, { cwd: terminal.home })
    expect([back.code, back.document.data.id, back.document.data.variables]).toEqual([0, before.id, before.variables])
    await expect.poll(() => pageOf(production)).toBe('one')
  })

  test.for([[isDrill ? 5_000 : 100]])('of %i small files arrives whole', async ([count = 0]) => {
    const contentOf = (n: number): string => `content ${n % 20}`
    const names = Array.from({ length: count }, (_, n) => `assets/${n % 50}/file-${n}.txt`)
    const { cwd } = await newProject(Object.fromEntries(names.map((name, n) => [name, contentOf(n)])))
    const { code, document } = await terminal.json('deploy', { cwd })
    expect([code, document.data.files]).toEqual([0, count])
    const { files } = (await terminal.json(`inspect ${document.data.id}`)).document.data
    expect(files.map(({ path }: { path: string }) => path)).toEqual(names.toSorted())
    expect(await pageOf(document.data.url, `/${names.at(-1)}`)).toBe(contentOf(count - 1))
  })

  test('--prebuilt sends what was built and nothing else, though .gitignore names it', async () => {
    const { cwd } = await newProject({
      '.gitignore': '.vercel\n',
      'package.json': JSON.stringify({ scripts: { build: 'exit 1' } }),
      'src/index.ts': '',
    })
    const refused = await terminal.json('deploy --prebuilt', { cwd })
    expect([refused.code, refused.document.message]).toEqual([
      2,
      'There is no .vercel/output/config.json: build the project first',
    ])
    await terminal.folder(cwd.slice(terminal.home.length), {
      '.vercel/output/config.json': JSON.stringify({ version: 3 }),
      '.vercel/output/static/index.html': 'built here',
    })
    const { code, document } = await terminal.json('deploy --prebuilt', { cwd })
    expect([code, document.data.files]).toEqual([0, 2])
    expect(await pageOf(document.data.url)).toBe('built here')
  })

  test('a git checkout is deployed as it is, changes too, with its commit and without what signs in to its repository', async () => {
    const { cwd } = await newProject({ 'index.html': 'committed', '.gitignore': '/.platform/\n' })
    const git = async (...args: string[]): Promise<string> =>
      (
        await promisify(execFile)('git', ['-c', 'user.name=Ana', '-c', 'user.email=a@example.com', ...args], {
          cwd,
          env: terminal.env,
        })
      ).stdout
    await git('init', '--quiet', '--initial-branch=main')
    await git('remote', 'add', 'origin', 'https://ana:t0ken@git.example.com/acme/shop.git')
    await git('add', '.')
    await git('commit', '--quiet', '-m', 'Show the total')
    const commit = (await git('rev-parse', 'HEAD')).trim()
    await writeFile(join(cwd, 'new.html'), 'not committed')

    const { code, stdout, stderr } = await terminal.run('deploy', { cwd })
    expect(code).toBe(0)
    expect(stderr).toContain(`Deploying the folder as it is: ${commit.slice(0, 8)} on main with 1 uncommitted change\n`)
    expect(await pageOf(stdout.trim(), '/new')).toBe('not committed')
    const { document, stdout: shown } = await terminal.json('deployments', { cwd })
    expect(document.data[0].git).toEqual({
      commit,
      branch: 'main',
      message: 'Show the total',
      isDirty: true,
      pullRequest: null,
      repository: 'https://git.example.com/acme/shop',
    })
    expect(shown).not.toContain('t0ken')
  })

  test('the same command deploys a folder after a kill while it was sent', async () => {
    const { cwd } = await newProject({ 'index.html': 'whole' })
    // Its first part is sent, and it comes no further.
    const holding = `const send = globalThis.fetch
      globalThis.fetch = (url, init) => {
        if (!url.endsWith('/upload/complete')) return send(url, init)
        process.stderr.write('HELD')
        return new Promise(() => setInterval(() => {}, 60_000))
      }`
    const preload = `data:text/javascript,${encodeURIComponent(holding)}`
    const killed = startProgram(terminal, [process.execPath, '--import', preload, mainPath, 'deploy'], { cwd })
    await killed.print(/HELD/)
    killed.process.kill('SIGKILL')
    expect((await killed.end()).signal).toBe('SIGKILL')

    const { code, stdout } = await terminal.run('deploy', { cwd })
    expect([code, await pageOf(stdout.trim())]).toEqual([0, 'whole'])
    const pending = await terminal.json('deployments --status PENDING', { cwd })
    const [{ id }] = pending.document.data
    expect((await terminal.json(`cancel ${id}`)).document.data).toMatchObject({
      status: 'FAILED',
      failureReason: 'Cancelled',
    })
  })
})

describe('deploy of source', unless(obstacle), () => {
  const nothingToInstall = JSON.stringify({ installCommand: '' })
  test('a build is shown line by line, and what it made is served', async () => {
    const { cwd } = await newProject({
      'package.json': JSON.stringify({ scripts: { build: 'node build.cjs' } }),
      'vercel.json': nothingToInstall,
      'build.cjs': `console.log('Pages: 1'); const fs = require('node:fs'); fs.mkdirSync('dist')
        fs.writeFileSync('dist/index.html', 'built there')`,
      'node_modules/left/index.js': '',
    })
    const { code, stdout, stderr } = await terminal.run('deploy', { cwd })
    expect([code, await pageOf(stdout.trim())]).toEqual([0, 'built there'])
    expect(stderr).toMatch(/^Left out: node_modules \(is installed by the platform\)$/m)
    expect(stderr).toMatch(/^BUILDING$[^]*^Pages: 1$[^]*^ACTIVE$/m)
  })

  test('a build that fails is 6 with the reason, the line that matters and the command that shows all', async () => {
    const { cwd } = await newProject({
      'package.json': JSON.stringify({ scripts: { build: 'echo There is no page >&2; exit 1' } }),
      'vercel.json': nothingToInstall,
    })
    const failed = await terminal.json('deploy', { cwd })
    const { reason, message, data } = failed.document
    expect([failed.code, reason, data.lines]).toEqual([
      6,
      'deployment_failed',
      expect.arrayContaining(['There is no page']),
    ])
    expect(message).toBe((await deploymentOf(data.id)).failureReason)
    expect(message).toContain('npm run build')
    const log = await runAsPrinted(failed, 0)
    expect([log.code, log.events.map((line) => line.message)]).toEqual([
      0,
      expect.arrayContaining(['There is no page']),
    ])
  })
})

describe('Ctrl-C', () => {
  test('Ctrl-C while a deployment is sent cancels it', async () => {
    const { cwd } = await newProject({ 'index.html': 'never' })
    for (const [signal, exit] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
    ] as const) {
      const ending = new AbortController()
      const { fetch: held } = recordingFetch((sent, aborted) => {
        if (!sent.startsWith('PUT ')) return undefined
        ending.abort(signal)
        return untilAborted(aborted)
      })
      const { code, document } = await terminal.json('deploy', { cwd, fetch: held, signal: ending.signal })
      expect([code, document.message]).toEqual([exit, 'Interrupted: the deployment was cancelled'])
      expect(await deploymentOf(document.data.id)).toMatchObject({ status: 'FAILED', failureReason: 'Cancelled' })
    }
  })

  test('Ctrl-C during a build says that the build goes on, which it does', async () => {
    const { cwd } = await newProject({ 'index.html': 'later' })
    const ending = new AbortController()
    const [ended, statusThen] = await server.api.db.transaction(async (tx) => {
      // The worker comes no further than the files that it stores.
      await tx.execute('lock table artifacts in share mode')
      const interrupted = await terminal.json('deploy', {
        cwd,
        signal: ending.signal,
        onStderr: (text) => text.includes('BUILDING') && ending.abort('SIGINT'),
      })
      const { status } = await deploymentOf(interrupted.document.data.id)
      return [interrupted, status]
    })
    const { code, document } = ended
    expect([code, document.message, statusThen]).toEqual([130, 'Interrupted: the build goes on', 'BUILDING'])
    const { id } = document.data
    expect(nextOf(ended)).toEqual([`platform logs ${id} --build --follow`, `platform cancel ${id}`])
    const followed = await runAsPrinted(ended, 0)
    expect([followed.code, followed.document.data.status]).toEqual([0, 'ACTIVE'])
  })
})

describe('before anything is sent', () => {
  test('a file over the limit is named with it before anything is sent', async () => {
    const { cwd } = await newProject({ 'index.html': '', 'big.bin': '' })
    await truncate(join(cwd, 'big.bin'), 101 * 1_024 ** 2)
    const { sent, fetch: recorded } = recordingFetch()
    const { code, document } = await terminal.json('deploy', { cwd, fetch: recorded })
    expect([code, document.reason, document.message]).toEqual([2, 'usage', 'big.bin has 101 MiB; 100 MiB are allowed'])
    expect(document.data.tooLarge).toEqual([{ path: 'big.bin', bytes: 105_906_176, limit: 104_857_600 }])
    expect(sent.filter((each) => !each.startsWith('GET '))).toEqual([])
  })

  test('an archive over the organization’s limit is refused; with an API key, which cannot know it, the platform does', async () => {
    const { person, token, organizationId, applicationId } = await newOwner(server)
    await setQuota(server.api, organizationId, 'archive_bytes', 10_000)
    const somebody = await signedInTerminal(server, person)
    const cwd = await somebody.folder('large', { 'large.bin': randomBytes(20_000) })
    const { sent, fetch: recorded } = recordingFetch()
    const { code, document } = await somebody.json(`deploy --app ${applicationId}`, { cwd, fetch: recorded })
    expect([code, document.message]).toEqual([2, 'The archive has more than 0.1 MiB, which are allowed'])
    expect(sent.filter((each) => !each.startsWith('GET '))).toEqual([])

    const key = await newKey(server, { token, applicationId }, ['network:deployments:trigger'])
    const env = { PLATFORM_CLIENT_ID: key.id, PLATFORM_CLIENT_SECRET: key.secret }
    const refused = await somebody.json('deploy', { cwd, env })
    expect([refused.code, refused.document.reason, refused.document.data.status]).toEqual([9, 'limit_reached', 413])
    expect(refused.document.message).toBe('The request body is larger than 10000 bytes: the deployment was cancelled')
  })

  test('deploy --dry-run lists what would be sent, without a request and without a sign-in', async () => {
    const nobody = await newTerminal(server)
    const cwd = await nobody.folder('site', { 'index.html': 'hello', 'a/b.txt': '', '.env': '' })
    const none = () => Promise.reject(new Error('Something was sent'))
    const { code, document } = await nobody.json('deploy --dry-run', { cwd, fetch: none })
    expect([code, document.data]).toEqual([
      0,
      {
        files: 2,
        bytes: 5,
        paths: ['a/b.txt', 'index.html'],
        left: [{ path: '.env', why: 'may hold secrets, by its name' }],
        sent: false,
      },
    ])
    expect((await nobody.run('deploy --dry-run', { cwd, fetch: none })).stdout).toBe('a/b.txt\nindex.html\n')
    const included = await nobody.json('deploy --dry-run --include .env', { cwd, fetch: none })
    expect(included.document.data.paths).toEqual(['.env', 'a/b.txt', 'index.html'])
  })

  test.for([
    ['deploy', 'There is no file to deploy'],
    ['deploy --include .env.production', 'include names ".env.production", which is not there'],
    ['deploy --dry-run --include ../other', 'include names "../other", which is not there'],
    ['deploy nowhere', '"nowhere" is not a folder: there is none of that name'],
    ['deploy .gitignore', '".gitignore" is not a folder: it is a file'],
  ] as const)('%s is refused in an empty folder', async ([line, message]) => {
    const { cwd } = await newProject()
    await writeFile(join(cwd, '.gitignore'), '.gitignore\n')
    const { sent, fetch: recorded } = recordingFetch()
    const { code, document } = await terminal.json(line, { cwd, fetch: recorded })
    expect([code, document.reason, document.message]).toEqual([2, 'usage', message])
    expect(sent.filter((each) => !each.startsWith('GET '))).toEqual([])
  })
})

describe('deploy with an API key', () => {
  const scopes = ['network:deployments:trigger', 'network:deployments:read']
  let env: Record<string, string>
  let machine: Terminal
  let cwd: string
  beforeAll(async () => {
    const key = await newKey(server, owner, scopes)
    env = { PLATFORM_CLIENT_ID: key.id, PLATFORM_CLIENT_SECRET: key.secret }
    machine = await newTerminal(server)
    cwd = await machine.folder('site', { 'index.html': 'from CI' })
  })

  test('an API key with two scopes deploys to its application, which nobody has to name, and asks for no quota', async () => {
    const { sent, fetch: recorded } = recordingFetch()
    const { code, document } = await machine.json('deploy', { cwd, env, fetch: recorded })
    expect([code, document.data.applicationId]).toEqual([0, owner.applicationId])
    expect(document.data.createdBy).toEqual({ type: 'api_key', id: env['PLATFORM_CLIENT_ID'] })
    expect(await pageOf(document.data.url)).toBe('from CI')
    expect(sent.filter((each) => each.includes('quota'))).toEqual([])
  })

  test('an API key reaches no other application: --app and the link of a folder that name one are 4, with both ids', async () => {
    const { id, slug } = await newApplication()
    const linked = await machine.folder('linked', {
      'index.html': '',
      '.platform/project.json': JSON.stringify({ organizationId: owner.organizationId, applicationId: id }),
    })
    const begin = `The API key is one of the application ${owner.applicationId}, and`
    for (const [line, place, end] of [
      [`deploy --app ${id}`, cwd, `--app names ${id}`],
      [`deploy --app ${slug}`, cwd, `--app names ${slug}`],
      ['deploy', linked, `the link of this folder names ${id}`],
    ] as const) {
      const { sent, fetch: recorded } = recordingFetch()
      const { code, document } = await machine.json(line, { cwd: place, env, fetch: recorded })
      expect([code, document.reason, document.message]).toEqual([4, 'not_found', `${begin} ${end}`])
      expect(sent.filter((each) => each.includes('/deployments'))).toEqual([])
    }
    // Its own may be named.
    const { code } = await machine.json(`deploy --app ${owner.applicationId} --no-wait`, { cwd: linked, env })
    expect(code).toBe(0)
  })
})

describe('a folder without a link', () => {
  test('deploy of an unlinked folder is 8 where nobody can be asked, and each command that it names goes on', async () => {
    const other = await newOwner(server)
    const machine = await signedInTerminal(server, other.person)
    const cwd = await machine.folder('my shop', { 'index.html': 'linked' })
    const asked = await machine.json('deploy --preview --no-wait', { cwd })
    expect([asked.code, asked.document.status, asked.document.reason]).toEqual([8, 'action_required', 'input_needed'])
    const commands = nextOf(asked)
    expect(commands).toEqual([
      expect.stringMatching(/^platform deploy --preview --no-wait --app org-\w+\/app-\w+$/),
      `platform link --create 'my shop'`,
    ])
    const beside = await machine.json(['deploy', '../my shop'], { cwd: await machine.folder('beside') })
    expect(nextOf(beside).at(-1)).toBe(`platform link '${cwd}' --create 'my shop'`)
    const made: Ended[] = []
    for (const command of commands) made.push(await machine.json(command.slice('platform '.length), { cwd }))
    expect(made.map(({ code }) => code)).toEqual([0, 0])
    expect(made[0]?.document.data).toMatchObject({ applicationId: other.applicationId, environment: 'preview' })
    const deployed = await machine.json('deploy --no-wait', { cwd })
    expect(deployed.document.data.applicationId).toBe(made[1]?.document.data.applicationId)
  })

  test('deploy of an unlinked folder asks in a terminal, links what was chosen or made, and does not ask again', async () => {
    const other = await newOwner(server)
    const second = await newApplication(other)
    const machine = await signedInTerminal(server, other.person)
    const [cwd, made] = [
      await machine.folder('chosen', { 'index.html': '' }),
      await machine.folder('made', { 'dist/index.html': '' }),
    ]
    const idOf = async (folder: string): Promise<string> =>
      (JSON.parse(await readFile(join(folder, '.platform/project.json'), 'utf8')) as { applicationId: string })
        .applicationId
    const { body: listed } = await server.call(other.token, 'GET /applications')
    const index = (listed.items as Application[]).findIndex(({ id }) => id === second.id)
    const [down, enter] = ['\u001b[B', '\r']
    const question = 'Which application is this folder of?'
    const chosen = await machine.run('deploy --no-wait', {
      cwd,
      isTerminal: true,
      typed: [[question, down.repeat(index) + enter]],
    })
    expect([chosen.code, await idOf(cwd)]).toEqual([0, second.id])
    expect(chosen.stdout).toMatch(/^\S+\n$/)

    const typed = [
      [question, down.repeat(2) + enter],
      ['What is it called?', enter],
    ] as const
    // The link stands beside what the next build makes anew.
    expect((await machine.run('deploy dist --no-wait', { cwd: made, isTerminal: true, typed })).code).toBe(0)
    const { items } = (await server.call(other.token, 'GET /applications')).body as {
      items: (Application & { name: string })[]
    }
    const application = items.find(({ name }) => name === 'made')
    expect(await idOf(made)).toBe(application?.id)
    expect((await machine.run('deployments', { cwd: made, isTerminal: true })).code).toBe(0)

    const left = await machine.run('deploy', { cwd: machine.home, isTerminal: true, typed: [[question, '\u0003']] })
    expect(left.code).toBe(130)
  })

  test('a folder is linked once, however often link runs, and unlinked', async () => {
    const cwd = await terminal.folder(`twice-${unique()}`, { '.gitignore': 'dist' })
    const first = await terminal.json(`link --app ${owner.applicationId}`, { cwd })
    expect(first.document.data.files).toEqual([join(cwd, '.platform/project.json'), join(cwd, '.gitignore')])
    const again = await terminal.json(`link --app ${owner.applicationId}`, { cwd })
    expect([again.code, again.document.data.files]).toEqual([0, []])
    expect(await readFile(join(cwd, '.gitignore'), 'utf8')).toBe('dist\n/.platform/\n')
    expect((await terminal.json('unlink', { cwd })).document.data.wasLinked).toBe(true)
    expect((await terminal.json('unlink', { cwd })).document.data.wasLinked).toBe(false)
    expect((await terminal.json('deploy', { cwd })).code).toBe(8)
  })

  test('a folder is not deployed to an application out of reach, by --app or by its link', async () => {
    const stranger = await newOwner(server)
    const linked = await terminal.folder(`strange-${unique()}`, {
      'index.html': '',
      '.platform/project.json': JSON.stringify({
        organizationId: stranger.organizationId,
        applicationId: stranger.applicationId,
      }),
    })
    for (const line of [`deploy --app ${stranger.applicationId}`, 'deploy --app nobody/nothing', 'deploy']) {
      const { sent, fetch: recorded } = recordingFetch()
      const { code, document } = await terminal.json(line, { cwd: linked, fetch: recorded })
      expect([line, code, document.reason]).toEqual([line, 4, 'not_found'])
      expect(document.message).toContain(line.split('--app ')[1] ?? stranger.applicationId)
      expect(sent.filter((each) => !each.startsWith('GET '))).toEqual([])
    }
  })

  test('deploy to a slug that two organizations have is 2, and each command that it names goes on', async () => {
    const second = await newOwner(server, owner.person)
    const name = `Twin ${unique()}`
    const twins = [await newApplication(owner, name), await newApplication(second, name)]
    const cwd = await terminal.folder(`twin-${unique()}`, { 'index.html': '' })
    const asked = await terminal.json(`deploy --app ${twins[0]?.slug}`, { cwd })
    expect([asked.code, asked.document.reason, nextOf(asked).length]).toEqual([2, 'usage', 2])
    const linked = [await runAsPrinted(asked, 0, { cwd }), await runAsPrinted(asked, 1, { cwd })]
    expect(linked.map(({ code }) => code)).toEqual([0, 0])
    expect(new Set(linked.map(({ document }) => document.data.applicationId))).toEqual(
      new Set(twins.map(({ id }) => id)),
    )
  })
})

describe('deployments', () => {
  let cwd: string
  let applicationId: string
  const ids: string[] = []
  beforeAll(async () => {
    ;({ cwd, applicationId } = await newProject({ 'index.html': 'first' }))
    for (const environment of ['production', 'preview', 'production'] as const)
      ids.push(await newDeployment(applicationId, environment))
  })

  test('deployments are listed newest first, by environment, by status and as many as wanted', async () => {
    const listed = async (flags: string) => {
      const { code, document } = await terminal.json(`deployments ${flags}`, { cwd })
      expect(code).toBe(0)
      return (document.data as { id: string }[]).map(({ id }) => ids.indexOf(id))
    }
    expect(await listed('')).toEqual([2, 1, 0])
    expect(await listed('--env preview')).toEqual([1])
    expect(await listed('--limit 2')).toEqual([2, 1])
    expect(await listed('--status FAILED')).toEqual([])
    expect(await listed('--status active --env production --limit 1')).toEqual([2])
    const { stdout } = await terminal.run('deployments', { cwd })
    expect(stdout).toMatch(/^ID +ENVIRONMENT +STATE +CREATED \(UTC\) +COMMIT\n/)
    expect(stdout).toMatch(new RegExp(`^${ids[2]} +production +ACTIVE \\(current\\) +`, 'm'))
    expect((await terminal.run('deployments --status FAILED', { cwd })).stdout).toBe('There is no deployment\n')
  })

  test('promote serves a deployment, and rollback goes to the one before, named with its time', async () => {
    const [first = '', preview = '', second = ''] = ids
    const back = await terminal.run('rollback', { cwd })
    expect([back.code, back.stdout]).toEqual([
      0,
      `Back to ${first} of ${(await deploymentOf(first)).createdAt} in production. Its variables came back with it\n`,
    ])
    const nothing = await terminal.json('rollback', { cwd })
    expect([nothing.code, nothing.document.message]).toEqual([
      4,
      `There is nothing to go back to: no deployment before ${first} is still there in production`,
    ])
    const promoted = await terminal.json(`promote ${second}`, { cwd: terminal.home })
    expect([promoted.code, promoted.document.data.isCurrent]).toEqual([0, true])
    expect((await runAsPrinted(promoted, 0, { cwd: terminal.home })).document.data.id).toBe(first)
    expect((await terminal.json(`rollback ${second}`, { cwd })).document.data).toMatchObject({
      id: second,
      isCurrent: true,
    })
    // Of another environment, which is not asked for.
    expect((await terminal.json('rollback --env preview', { cwd })).code).toBe(4)
    expect((await terminal.json(`rollback ${preview}`, { cwd })).document.data.environment).toBe('preview')
  })

  test('rollback passes over retired deployments, which cannot be promoted', async () => {
    const project = await newProject({ 'index.html': '' })
    const made: string[] = []
    for (let n = 0; n < 3; n++) made.push(await newDeployment(project.applicationId))
    const [oldest = '', retired = ''] = made
    await retireDeployment(server.api, retired)
    for (const line of [`promote ${retired}`, `rollback ${retired}`]) {
      const { code, document } = await terminal.json(line, { cwd: project.cwd })
      expect([line, code, document.reason]).toEqual([line, 5, 'conflict'])
      expect(document.message).toContain('was retired')
    }
    expect((await terminal.json('rollback', { cwd: project.cwd })).document.data.id).toBe(oldest)
    expect((await terminal.run('deployments', { cwd: project.cwd })).stdout).toMatch(
      new RegExp(`^${retired} +production +retired`, 'm'),
    )
  })

  test('rollback to a deployment of another application is refused with both ids', async () => {
    const { code, document } = await terminal.json(`rollback ${ids[0]} --app ${owner.applicationId}`, { cwd })
    expect([code, document.message]).toEqual([
      2,
      `The deployment ${ids[0]} is one of the application ${applicationId}, not of ${owner.applicationId}`,
    ])
  })

  test('a deployment of somebody else is 4 for every command', async () => {
    const stranger = await signedInTerminal(server, (await newOwner(server)).person)
    for (const command of ['inspect', 'promote', 'cancel', 'open', 'logs', 'logs --build', 'logs --requests']) {
      const [name = '', ...flags] = command.split(' ')
      const { code, document } = await stranger.json([name, ids[0] ?? '', ...flags])
      expect([command, code, document.reason]).toEqual([command, 4, 'not_found'])
    }
  })

  test('deployments are inspected with their files, opened in a browser where there is one, and not cancelled once they are active', async () => {
    const [id = ''] = ids
    const { document } = await terminal.json(`inspect ${id}`)
    expect(document.data).toMatchObject({ id, files: [{ path: 'index.html' }], functions: [], crons: [] })
    expect((await terminal.run(`inspect ${id}`)).stdout).toMatch(/^State +ACTIVE[^]*^Files +1$/m)
    const { url } = document.data

    expect((await terminal.run(`open ${id}`)).stdout).toBe(`${url}\n`)
    expect(terminal.opened).toEqual([])
    await terminal.run(`open ${id}`, { isTerminal: true })
    expect(terminal.opened).toEqual([url])
    const current = await terminal.json('open', { cwd })
    expect(current.document.data).toEqual({ url: expect.stringContaining('localhost'), isOpened: false })
    expect(await pageOf(current.document.data.url)).toBe('first')
    const { cwd: empty } = await newProject()
    const none = await terminal.json('open', { cwd: empty })
    expect([none.code, nextOf(none)]).toEqual([4, ['platform deploy']])

    const cancelled = await terminal.json(`cancel ${id}`)
    expect([cancelled.code, cancelled.document.reason]).toEqual([5, 'conflict'])
  })

  test('commands of deployments need their scopes, and a sign-in without one is 3 and told which', async () => {
    const [looks, deploys, lists] = [
      'network:deployments:read',
      'network:deployments:trigger',
      'network:applications:read',
    ]
    const promote = `promote ${ids[0]}`
    // What a folder is linked to need not be looked up to deploy it, nor what is served to promote something else.
    for (const [missing, scopes, refused, allowed] of [
      [deploys, [looks, lists], ['deploy', promote, `cancel ${ids[0]}`], ['deployments']],
      [looks, [deploys, lists], ['deployments', `inspect ${ids[0]}`, 'rollback'], [promote]],
      [lists, [looks, deploys], [`deploy --app ${applicationId}`], ['deploy --no-wait']],
    ] as const) {
      const limited = await signedInTerminal(server, owner.person, scopes)
      for (const line of refused) {
        const ended = await limited.json(line, { cwd })
        const { reason, message } = ended.document
        expect([line, ended.code, reason, nextOf(ended)]).toEqual([
          line,
          3,
          'scope_missing',
          [`platform login --scope ${missing}`],
        ])
        expect(message).toContain(missing)
      }
      for (const line of allowed) expect([line, (await limited.json(line, { cwd })).code]).toEqual([line, 0])
    }
  })
})

test('--no-wait ends once all is sent, and the command that it names follows the rest', async () => {
  const { cwd } = await newProject({ 'index.html': 'sent' })
  const sent = await terminal.json('deploy --no-wait', { cwd })
  const { id, url, addresses } = sent.document.data
  expect([sent.code, addresses, nextOf(sent)]).toEqual([0, [url], [`platform logs ${id} --build --follow`]])
  const followed = await runAsPrinted(sent, 0, { cwd })
  expect([followed.code, followed.document.data.status]).toEqual([0, 'ACTIVE'])
  await untilEnded(server, id as string)
  expect(await pageOf(url as string)).toBe('sent')
})
