import { chmod, lstat, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseDotenv, writeDotenv } from '@platform/sdk/dotenv'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { awkwardValues } from '../../sdk/test/awkward-values.ts'
import { startProcess } from './cli-process.ts'
import { signedInTerminal, type Terminal } from './terminal.ts'

let server: TestPlatform
let owner: Owner
let terminal: Terminal
beforeAll(async () => {
  server = await startPlatform()
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
})
afterAll(() => server.close())

let folders = 0
/** A folder that is linked to an application of its own. */
async function newProject(
  files: Record<string, string | Buffer> = {},
): Promise<{ cwd: string; applicationId: string }> {
  const made = await server.call(owner.token, 'POST /applications', {
    organizationId: owner.organizationId,
    name: `Env ${++folders}`,
  })
  const applicationId = made.body.id as string
  const project = JSON.stringify({ organizationId: owner.organizationId, applicationId })
  return {
    cwd: await terminal.folder(`project-${folders}`, { '.platform/project.json': project, ...files }),
    applicationId,
  }
}

test('200 values of all kinds come back from the platform byte for byte, one of them with 64 KiB', async () => {
  const values = [...awkwardValues(), `${'é'.repeat(32_767)}\n\n`]
  expect([values.length, Buffer.byteLength(values.at(-1) ?? '')]).toEqual([200, 65_536])
  const variables = values.map((value, index) => ({ key: `KEY_${index}`, value }))
  const { cwd, applicationId } = await newProject({ '.env.local': writeDotenv(variables) })
  const pushed = await terminal.json('env push', { cwd })
  expect([pushed.code, pushed.document.data.created.length]).toEqual([0, 200])
  const { body } = await server.call(
    owner.token,
    `GET /applications/${applicationId}/env-vars/pull?environment=preview`,
  )
  const inOrder = (items: { key: string; value: string }[]) => new Map(items.map(({ key, value }) => [key, value]))
  expect(inOrder(body.items)).toEqual(inOrder(variables))

  const pulled = await terminal.json('env pull .env.pulled', { cwd })
  expect(pulled.document.data).toEqual({
    environment: 'preview',
    file: join(cwd, '.env.pulled'),
    count: 200,
    omittedSensitive: 0,
  })
  expect(parseDotenv(await readFile(join(cwd, '.env.pulled'), 'utf8'))).toEqual(inOrder(variables))
  const again = await terminal.json('env push .env.pulled', { cwd })
  expect(again.document.data).toMatchObject({ created: [], changed: [], unchanged: 200, deleted: [] })
})

describe('env set', () => {
  test.each(['', '\n', 'two\nlines', '\'"`$\\', 'é\u2028\r\n'])(
    'env set keeps what stdin and files hold byte for byte: %j',
    async (value) => {
      const { cwd, applicationId } = await newProject({ value })
      const lines =
        value === ''
          ? ['env set FROM_FILE --from-file value', "env set FROM_WORD ''"]
          : ['env set FROM_STDIN', 'env set FROM_FILE --from-file value']
      for (const line of lines) expect((await terminal.json(line, { cwd, stdin: value })).code).toBe(0)
      const { body } = await server.call(owner.token, `GET /applications/${applicationId}/env-vars`)
      expect((body.items as { value: string }[]).map((each) => each.value)).toEqual([value, value])
    },
  )

  test('env set changes the variable that is there, also one that somebody creates meanwhile, and says which layer', async () => {
    const { cwd, applicationId } = await newProject()
    const first = await terminal.json('env set LEVEL a', { cwd })
    const second = await terminal.json('env set LEVEL=b', { cwd })
    expect(second.document.data).toMatchObject({ id: first.document.data.id, value: 'b', scope: 'application' })
    const preview = await terminal.run('env set LEVEL c --env preview', { cwd })
    expect(preview.stdout).toContain('Set LEVEL in the environment preview')
    let isCreated = false
    const raced = await terminal.json('env set RACED mine', {
      cwd,
      // Between the look and the creation.
      async fetch(input, init) {
        if (init?.method === 'POST' && !isCreated) {
          isCreated = true
          await server.call(owner.token, `POST /applications/${applicationId}/env-vars`, {
            key: 'RACED',
            value: 'theirs',
          })
        }
        return fetch(input, init)
      },
    })
    expect([raced.code, raced.document.data.value]).toEqual([0, 'mine'])
  })

  test('env set shows a sensitive value to nobody, and takes it on stdin or from a file alone', async () => {
    const { cwd } = await newProject({ secret: 'canary-of-a-file' })
    const refused = await terminal.json('env set PASSWORD canary-in-the-command --sensitive', { cwd })
    expect([refused.code, refused.stdout]).toEqual([2, expect.not.stringContaining('canary')])
    const set = await terminal.json('env set PASSWORD --sensitive --from-file secret --verbose', { cwd })
    const listed = await terminal.json('env ls', { cwd })
    expect([set.code, set.stdout + set.stderr + listed.stdout]).toEqual([0, expect.not.stringContaining('canary')])
    expect(listed.document.data).toMatchObject([{ key: 'PASSWORD', value: null, sensitive: true }])
  })

  test('env set asks for a value in a terminal without showing it, and elsewhere says how it is given', async () => {
    const { cwd, applicationId } = await newProject()
    const asked = await terminal.run('env set TYPED', { cwd, isTerminal: true, stdin: 'canary\r' })
    expect([asked.code, asked.stderr]).toEqual([0, expect.not.stringContaining('canary')])
    const { body } = await server.call(owner.token, `GET /applications/${applicationId}/env-vars`)
    expect(body.items).toMatchObject([{ key: 'TYPED', value: 'canary' }])
    const silent = await terminal.json('env set NOTHING', { cwd })
    expect([silent.code, silent.document.status]).toEqual([8, 'action_required'])
    const [next] = silent.document.next
    expect((await terminal.run(next?.command.replace('platform ', '') ?? '', { cwd })).code).toBe(0)
  })

  test('env set refuses a value that is too long, not UTF-8 or holds a NUL, before a request', async () => {
    const { cwd } = await newProject({ long: 'x'.repeat(65_537), bytes: Buffer.from([0xff]), nul: 'a\0b' })
    const send = (): never => {
      throw new Error('nothing is sent')
    }
    for (const [name, message] of [
      ['long', '65536 at most'],
      ['bytes', 'not UTF-8'],
      ['nul', 'NUL'],
      ['missing', 'cannot be read'],
    ] as const) {
      const { code, document } = await terminal.json(`env set A --from-file ${name}`, { cwd, fetch: send })
      expect([name, code, document.message]).toEqual([name, 2, expect.stringContaining(message)])
    }
  })
})

describe('env push', () => {
  const layerOf = async (applicationId: string) => {
    const { body } = await server.call(owner.token, `GET /applications/${applicationId}/env-vars`)
    return Object.fromEntries(
      (body.items as { key: string; value: string | null; environmentName: string | null }[]).map((each) => [
        `${each.environmentName}/${each.key}`,
        each.value,
      ]),
    )
  }

  test('env push deletes nothing without --prune, with it nothing that is sensitive or of another layer, and asks first', async () => {
    const { cwd, applicationId } = await newProject({ '.env.local': 'KEPT=new\nADDED=1\n' })
    const set = async (key: string, value: string, more: object) =>
      server.call(owner.token, `POST /applications/${applicationId}/env-vars`, { key, value, ...more })
    await set('KEPT', 'old', { environment: 'preview' })
    await set('GONE', '1', { environment: 'preview' })
    await set('SECRET', '1', { environment: 'preview', sensitive: true })
    await set('GONE', '1', { environment: 'production' })
    await set('OF_ALL', '1', {})

    const dry = await terminal.json('env push --prune --dry-run', { cwd })
    expect(dry.document.data).toMatchObject({ created: ['ADDED'], changed: ['KEPT'], deleted: ['GONE'], dryRun: true })
    const others = { 'Preview/SECRET': null, 'Production/GONE': '1', 'null/OF_ALL': '1' }
    expect(await layerOf(applicationId)).toEqual({ ...others, 'Preview/KEPT': 'old', 'Preview/GONE': '1' })

    const pushed = await terminal.run('env push', { cwd })
    expect(pushed.stdout).toContain('+ ADDED\n~ KEPT\n1 created, 1 changed, 0 deleted, 0 unchanged')
    expect(await layerOf(applicationId)).toEqual({
      ...others,
      'Preview/KEPT': 'new',
      'Preview/GONE': '1',
      'Preview/ADDED': '1',
    })

    const unsure = await terminal.json('env push --prune', { cwd })
    expect([unsure.code, unsure.document.status]).toEqual([8, 'action_required'])
    expect(await layerOf(applicationId)).toHaveProperty('Preview/GONE')
    const [next] = unsure.document.next
    expect((await terminal.run(next?.command.replace('platform ', '') ?? '', { cwd })).code).toBe(0)
    expect(await layerOf(applicationId)).toEqual({ ...others, 'Preview/KEPT': 'new', 'Preview/ADDED': '1' })
  })

  test('env push sends nothing of a file with a bad name, and names it', async () => {
    for (const [text, message] of [
      ['A=1\n1B=2\n', 'Line 2'],
      ['PLATFORM_TOKEN=1\n', 'reserved'],
      [`A=${'x'.repeat(65_537)}`, '65536'],
    ] as const) {
      const { cwd } = await newProject({ '.env.local': text })
      const { code, document } = await terminal.json('env push', {
        cwd,
        fetch: () => Promise.reject(new Error('nothing is sent')),
      })
      expect([code, document.message]).toEqual([2, expect.stringContaining(message)])
    }
  })
})

describe('env pull', () => {
  test('env pull says how many sensitive ones are missing, and writes for its owner alone what was readable by all before', async () => {
    const { cwd, applicationId } = await newProject({ '.env.local': 'OLD=1' })
    await chmod(join(cwd, '.env.local'), 0o644)
    const set = (body: object) => server.call(owner.token, `POST /applications/${applicationId}/env-vars`, body)
    await set({ key: 'SHOWN', value: '1' })
    await set({ key: 'SECRET', value: 'canary', sensitive: true })
    await set({ key: 'OF_PRODUCTION', value: '1', environment: 'production' })
    const unsure = await terminal.json('env pull', { cwd })
    expect([unsure.code, unsure.document.message]).toEqual([8, expect.stringContaining('OLD would be lost')])
    expect(await readFile(join(cwd, '.env.local'), 'utf8')).toBe('OLD=1')
    const pulled = await terminal.run('env pull --yes', { cwd })
    expect(pulled.stdout).toContain('Wrote 1 variables of preview')
    expect(pulled.stdout).toContain('1 sensitive ones are missing')
    expect(await readFile(join(cwd, '.env.local'), 'utf8')).toBe('# Written by `platform env pull`: preview\nSHOWN=1\n')
    expect((await stat(join(cwd, '.env.local'))).mode & 0o777).toBe(0o600)
    await terminal.run('env pull --env production', { cwd })
    expect(await readFile(join(cwd, '.env.local'), 'utf8')).toBe(
      '# Written by `platform env pull`: production\nOF_PRODUCTION=1\nSHOWN=1\n',
    )
    expect((await readdir(cwd)).toSorted()).toEqual(['.env.local', '.platform'])
  })

  test('env pull writes through no link', async () => {
    const { cwd } = await newProject({ target: 'untouched' })
    await symlink(join(cwd, 'target'), join(cwd, '.env.local'))
    const { code, document } = await terminal.json('env pull', { cwd })
    expect([code, document.message]).toEqual([2, expect.stringContaining('is a link')])
    expect(await readFile(join(cwd, 'target'), 'utf8')).toBe('untouched')
    expect((await lstat(join(cwd, '.env.local'))).isSymbolicLink()).toBe(true)
  })
})

test('an API key that holds the scopes of variables needs no other, and no --app', async () => {
  const { cwd, applicationId } = await newProject()
  const { id, secret } = await newKey(server, { ...owner, applicationId }, [
    'network:env_vars:read',
    'network:env_vars:write',
  ])
  const env = { PLATFORM_CLIENT_ID: id, PLATFORM_CLIENT_SECRET: secret }
  for (const line of ['env set LEVEL a --env preview', 'env set LEVEL b --env preview', 'env ls', 'env pull'])
    expect([line, (await terminal.json(line, { cwd, env })).code]).toEqual([line, 0])
  const removed = await terminal.json('env rm LEVEL --env preview --yes', { cwd, env })
  expect([removed.code, removed.document.hint]).toEqual([3, expect.stringContaining('network:env_vars:delete')])
  const organization = await terminal.json('env set A b --layer organization', { cwd, env })
  expect(organization.code).toBe(2)
})

describe('env run', () => {
  test('env run gives the command the variables of preview, ends with its exit code, and leaves no file', async () => {
    const { cwd, applicationId } = await newProject()
    await server.call(owner.token, `POST /applications/${applicationId}/env-vars`, {
      key: 'GREETING',
      value: "it's\n$HOME",
    })
    const script = 'process.stdout.write(JSON.stringify(process.env.GREETING)); process.exit(42)'
    const ended = await startProcess(terminal, ['env', 'run', '--', process.execPath, '-e', script], { cwd }).end()
    expect(ended).toEqual({
      code: 42,
      signal: null,
      stdout: JSON.stringify("it's\n$HOME"),
      stderr: 'Running with 1 variables of preview\n',
    })
    expect(await readdir(cwd)).toEqual(['.platform'])
  })

  test('env run passes a signal on, and ends as the command does', async () => {
    const { cwd } = await newProject()
    const script =
      "process.on('SIGTERM', () => { console.log('asked to end'); process.exit(7) }); console.log('ready'); setInterval(() => {}, 1000)"
    const started = startProcess(terminal, ['env', 'run', '--', process.execPath, '-e', script], { cwd })
    await started.print(/ready/)
    started.process.kill('SIGTERM')
    expect(await started.end()).toMatchObject({ code: 7, stdout: 'ready\nasked to end\n' })
  })

  test('env run says of a missing program what it looked for', async () => {
    const { cwd } = await newProject()
    const { code, document } = await terminal.run('env run --json -- no-such-program', { cwd }).then((ended) => ended)
    expect([code, document.message]).toEqual([2, 'no-such-program cannot be run: there is no such program'])
  })
})

test('variables of another person’s application are not in reach', async () => {
  const stranger = await newOwner(server)
  const other = await signedInTerminal(server, stranger.person)
  const { applicationId, cwd } = await newProject()
  for (const command of ['env ls', 'env set A b', 'env rm A --yes', 'env pull', 'env push --dry-run']) {
    await writeFile(join(cwd, '.env.local'), 'A=1')
    const { code, document } = await other.json(command, { cwd })
    expect([command, code, document.reason]).toEqual([command, 4, 'not_found'])
    expect((await other.json(`${command} --app ${applicationId}`, { cwd })).code).toBe(4)
  }
})
