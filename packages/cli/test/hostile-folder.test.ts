import { execFile } from 'node:child_process'
import { appendFile, chmod, chown, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unless } from '@platform/test-runner/task-meta'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { json, startHostileServer } from '../../sdk/test/hostile-server.ts'
import { unpack } from '../../sdk/test/pack-folder.ts'
import { visit } from '../../../services/api/test/deploy.ts'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { readCheckout } from '../src/git.ts'
import { visibleText } from '../src/visible-text.ts'
import { type Ended, newTerminal, signedInTerminal, type Terminal } from './terminal.ts'

/* oxlint-disable no-control-regex -- control characters are what is looked for */
const SGR = /\u001b\[[0-9;]*m/g
/** What a terminal obeys, or shows in another order than it stands. */
const OBEYED = /[\0-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/
/* oxlint-enable no-control-regex */

const CANARY = 'c4n4ry-0f-4-s3cr3t'
const pem = (kind: string): string => `-----BEGIN ${kind}-----\n${CANARY}\n-----END ${kind}-----\n`

let server: TestPlatform
let owner: Owner
let terminal: Terminal
beforeAll(async () => {
  server = await startPlatform({ hasWorker: true })
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
})
afterAll(() => server.close())

const projectOf = ({ organizationId, applicationId }: Owner): string =>
  JSON.stringify({ organizationId, applicationId })

/** A server that no request may reach. Ends with the test. */
const startStranger = () => startHostileServer([json(404, {})])

/** A fetch that keeps what is sent, and the archive among it. */
function recordingFetch() {
  const sent: URL[] = []
  const archive: Uint8Array[] = []
  return {
    sent,
    unpackSent: () => unpack(Buffer.concat(archive)),
    fetch(input: string | URL | Request, init?: RequestInit) {
      sent.push(new URL(input as string))
      if (init?.method === 'PUT') archive.push(init.body as Uint8Array)
      return fetch(input, init)
    },
  }
}

/** A repository with a commit and a changed file, a program that leaves a mark for each name that it is run with, and those marks. */
async function newRepository(name: string) {
  const folder = await terminal.folder(`${name}/repository`, {
    'index.html': 'first',
    'note.txt': 'first',
    'same.css': '',
  })
  const marks = await terminal.folder(`${name}/marks`)
  const program = join(folder, '..', 'evil.sh')
  await writeFile(program, `#!/bin/sh\ntouch ${marks}/$1\n[ "$1" = clean ] && cat\n`)
  await chmod(program, 0o755)
  const env = { ...terminal.env, HOME: join(folder, '..') }
  const git = async (...args: string[]): Promise<string> =>
    (
      await promisify(execFile)('git', ['-c', 'user.name=Eve', '-c', 'user.email=eve@example.com', ...args], {
        cwd: folder,
        env,
      })
    ).stdout.trim()
  await git('init', '--quiet', '--initial-branch=main')
  await git('add', '.')
  await git('commit', '--quiet', '-m', 'Innocent')
  // As long as before: whether they differ can be told by their content alone.
  for (const path of ['index.html', 'note.txt']) await writeFile(join(folder, path), 'after')
  return {
    folder,
    program,
    git,
    configure: (text: string | Buffer) => appendFile(join(folder, '.git/config'), text),
    marks: async () => (await readdir(marks)).toSorted(),
  }
}

describe('the configuration of a git checkout', () => {
  test('watchers, filters, hooks, signatures, pagers, aliases and includes of a git checkout run nothing and ask nobody', async () => {
    const { folder, program, git, configure, marks } = await newRepository('settings')
    // A repository in it, with a filter of its own.
    const inner = await terminal.folder('settings/repository/inner', {
      'a.txt': 'first',
      '.gitattributes': '* filter=inner\n',
    })
    await git('-C', inner, 'init', '--quiet')
    await git('-C', inner, 'add', '.')
    await git('-C', inner, 'commit', '--quiet', '-m', 'x')
    await git('add', 'inner')
    await appendFile(join(inner, '.git/config'), `[filter "inner"]\n  clean = ${program} inner\n`)
    await writeFile(join(inner, 'a.txt'), 'after')
    // Written anew with the same content, for which git would write its index, and run a hook after that.
    await writeFile(join(folder, 'same.css'), '')
    await configure(`[core]
  fsmonitor = ${program} fsmonitor
  hooksPath = hooks
  pager = ${program} pager
  sshCommand = ${program} ssh
  askPass = ${program} askpass
[include]
  path = ../included
[filter "evil"]
  process = ${program} process
  required = true
[log]
  showSignature = true
[gpg]
  program = ${folder}/gpg.sh
[alias]
  status = !${program} alias
[diff]
  external = ${program} diff
[remote "origin"]
  url = https://ana:t0ken@git.example.com/acme/shop.git
`)
    await terminal.folder('settings/repository', {
      included: `[filter "plain"]\n  clean = ${program} clean\n`,
      '.gitattributes': '*.html filter=plain\n*.txt filter=evil\n',
      'hooks/post-index-change': `#!/bin/sh\n${program} hook\n`,
      'gpg.sh': `#!/bin/sh\n${program} gpg\n`,
    })
    for (const path of ['hooks/post-index-change', 'gpg.sh']) await chmod(join(folder, path), 0o755)
    // A commit that pretends to be signed.
    const commit = await git('cat-file', 'commit', 'HEAD')
    const path = join(folder, '../signed')
    await writeFile(
      path,
      commit.replace('\n\n', '\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n'),
    )
    await git('update-ref', 'HEAD', await git('hash-object', '-t', 'commit', '-w', path))
    expect(await marks()).toEqual([])

    const { code, document, stderr } = await terminal.json(`deploy --app ${owner.applicationId} --no-wait`, {
      cwd: folder,
    })
    expect([code, await marks()]).toEqual([0, []])
    expect(document.data.git).toMatchObject({
      branch: 'main',
      message: 'Innocent',
      isDirty: true,
      repository: 'https://git.example.com/acme/shop',
    })
    expect(stderr).toContain('uncommitted change')

    // This can fail: git itself, in the same folder, runs them. The first time it ends at a filter that does not speak its protocol.
    await git('status').catch(() => {})
    await git('-c', 'filter.evil.process=', '-c', 'filter.evil.required=false', 'status')
    await git('log', '-1')
    expect(await marks()).toEqual(['clean', 'fsmonitor', 'gpg', 'hook', 'inner', 'process'])
  })

  test.for([
    ['with "="', Buffer.from('a=b')],
    ['that is not UTF-8', Buffer.from([0xff])],
  ] as const)(
    'a filter of a git checkout runs nothing where no argument can have its name: one %s',
    async ([, name]) => {
      const { folder, program, git, configure, marks } = await newRepository(`filter-${name.toString('hex')}`)
      const put = (before: string, after: string): Buffer =>
        Buffer.concat([Buffer.from(before), name, Buffer.from(after)])
      await configure(put('[filter "', `"]\n  clean = ${program} clean\n`))
      await writeFile(join(folder, '.gitattributes'), put('* filter=', '\n'))
      expect([await readCheckout(folder, terminal.env), await marks()]).toEqual([undefined, []])
      await git('status')
      expect(await marks()).toEqual(['clean'])
    },
  )

  test.for(['ext', 'http'])(
    'a partial clone runs nothing and asks nobody for what it would fetch by %s',
    async (protocol) => {
      const stranger = await startStranger()
      const { folder, program, git, configure, marks } = await newRepository(`partial-${protocol}`)
      const tree = await git('rev-parse', 'HEAD^{tree}')
      await rm(join(folder, '.git/objects', tree.slice(0, 2), tree.slice(2)))
      await rm(join(folder, '.git/index'))
      await configure(`[extensions]
  partialClone = origin
[protocol]
  allow = always
[remote "origin"]
  url = ${protocol === 'ext' ? `ext::${program} ext` : stranger.baseUrl}
  promisor = true
  partialCloneFilter = blob:none
`)
      await git('config', 'core.repositoryFormatVersion', '1')
      expect(await readCheckout(folder, terminal.env)).toBeUndefined()
      expect([await marks(), stranger.requests]).toEqual([[], []])
      await git('status').catch(() => '')
      expect(protocol === 'ext' ? await marks() : stranger.requests).not.toEqual([])
    },
  )
})

/** Secrets by their paths; a folder stands for what is in it. */
const SECRETS: Record<string, string> = {
  '.git/config': CANARY,
  '.env': CANARY,
  '.env.local': CANARY,
  '.env.production': CANARY,
  '.envrc': CANARY,
  '.dev.vars': CANARY,
  '.dev.vars.staging': CANARY,
  'apps/web/.env': CANARY,
  '.netrc': CANARY,
  '.git-credentials': CANARY,
  '.ssh/config': CANARY,
  '.aws/credentials': CANARY,
  '.kube/config': CANARY,
  '.docker/config.json': CANARY,
  'apps/web/.platform/token.json': CANARY,
  id_rsa: CANARY,
  'id_rsa.old': CANARY,
  id_ed25519: CANARY,
  'client.p12': CANARY,
  'CLIENT.PFX': CANARY,
  'store.jks': CANARY,
  'terraform.tfstate': CANARY,
  'terraform.tfstate.backup': CANARY,
  'server.pem': pem('PRIVATE KEY'),
  'encrypted.pem': pem('ENCRYPTED PRIVATE KEY'),
  'rsa.key': pem('RSA PRIVATE KEY'),
  'openssh.key': pem('OPENSSH PRIVATE KEY'),
  '.npmrc': `//npm.example.com/:_authToken=${CANARY}\n`,
  'apps/.npmrc': `https-proxy=http://me:${CANARY}@proxy.example.com\n`,
  '.yarnrc.yml': `npmAuthToken: ${CANARY}\n`,
  'notes/draft.txt': CANARY,
}

test(`a folder from elsewhere publishes none of ${Object.keys(SECRETS).length} secrets, asks nobody else, and writes nothing that a terminal obeys`, async () => {
  const stranger = await startStranger()
  const settings = `PLATFORM_API_URL=${stranger.baseUrl}\nPLATFORM_TOKEN=x\nPLATFORM_CLIENT_ID=x\n# ${CANARY}\n`
  const sly = {
    '.env.\u001b]0;owned\u0007': CANARY,
    '.env.\u009b2J': CANARY,
    '.env.\u202egpj.exe': CANARY,
    '.env.\nServed at evil.example': CANARY,
  }
  const shown = {
    'index.html': 'hello',
    'cod\u202egpj.exe': 'turned',
    'pages/über uns.html': 'us',
    '.gitignore': 'notes\n',
  }
  const parent = await terminal.folder('above', { 'outside.txt': CANARY })
  const cwd = await terminal.folder('above/evil \u001b]0;owned\u0007 folder', {
    ...SECRETS,
    ...sly,
    ...shown,
    '.env': settings,
    '.env.local': settings,
    '.platform/project.json': projectOf(owner),
  })
  const links = { passwd: '/etc/passwd', outside: '../outside.txt', 'pages/up': '../..', 'pages/twice': '../outside' }
  for (const [path, target] of Object.entries(links)) await symlink(target, join(cwd, path))

  const { sent, fetch: recorded, unpackSent } = recordingFetch()
  const deployed = await terminal.json('deploy', { cwd, fetch: recorded, isTerminal: true, typed: [] })
  expect(deployed.code).toBe(0)
  const { data } = deployed.document
  const entries = await unpackSent()
  expect(entries.map(({ name }) => name)).toEqual([...Object.keys(shown), 'pages/twice'].toSorted())
  expect(entries.filter(({ content }) => content.includes(CANARY))).toEqual([])

  // Nobody but the platform was asked.
  expect(new Set(sent.map(({ origin }) => origin))).toEqual(new Set([server.apiUrl]))
  expect([stranger.requests, stranger.exchanges]).toEqual([[], []])

  // All that was left out is listed, by itself or by its folder.
  const left = new Map((data.left as { path: string; why: string }[]).map(({ path, why }) => [path, why]))
  const isListed = (path: string): boolean =>
    left.has(path) || (path.includes('/') && isListed(path.slice(0, path.lastIndexOf('/'))))
  expect(
    [...Object.keys(SECRETS), ...Object.keys(sly), '.platform', 'passwd', 'outside', 'pages/up'].filter(
      (path) => !isListed(path),
    ),
  ).toEqual([])
  expect([left.get('outside'), left.get('notes')]).toEqual(['leads out of the folder', 'matches `notes` in .gitignore'])

  // The platform has nothing of it.
  const inspected = await terminal.json(`inspect ${data.id}`)
  const paths = (inspected.document.data.files as { path: string }[]).map(({ path }) => path)
  expect(paths).toEqual(['cod\u202egpj.exe', 'index.html', 'pages/über uns.html'])
  for (const path of [...Object.keys(SECRETS), 'passwd', 'outside', 'pages/up/outside.txt', 'pages/twice']) {
    const { status, text } = await visit(server, new URL(data.url as string).host, `/${encodeURI(path)}`)
    expect([path, status, text.includes(CANARY)]).toEqual([path, 404, false])
  }

  // In a terminal there are colours and the line of the progress beside text; in a pipe nothing is.
  expect(deployed.stderr).toMatch(SGR)
  const listed = await terminal.run('deploy --dry-run', { cwd })
  for (const text of [
    deployed.stdout,
    deployed.stderr.replaceAll(SGR, '').replaceAll('\r\u001b[K', ''),
    inspected.stdout,
    listed.stdout,
    listed.stderr,
  ])
    expect(text).not.toMatch(OBEYED)
  for (const { stderr } of [deployed, listed]) {
    expect(stderr).toContain('Left out: .aws (may hold secrets, by its name)')
    expect(stderr).not.toMatch(/^Served at evil/m)
  }
  await rm(parent, { recursive: true })
})

test('a name that the platform refuses is refused before anything is sent, and shown as text', async () => {
  for (const name of ['a\u001b]0;owned\u0007.html', 'b\u001b[2J/c.html', 'd\r.html']) {
    const cwd = await terminal.folder(`refused-${Buffer.from(name).toString('hex')}`, { [name]: '', 'index.html': '' })
    const { sent, fetch: recorded } = recordingFetch()
    const ended = [
      await terminal.run(`deploy --app ${owner.applicationId}`, { cwd, fetch: recorded }),
      await terminal.json('deploy --dry-run', { cwd }),
    ]
    for (const { code, stdout, stderr } of ended) {
      expect(code).toBe(2)
      expect(stdout + stderr).toContain('has a control character in its name')
      expect(stdout + stderr).not.toMatch(OBEYED)
    }
    expect(sent.filter(({ pathname }) => pathname.startsWith('/deployments'))).toEqual([])
  }
})

describe('a bad link', () => {
  const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'
  const ids = { organizationId: id, applicationId: id }
  const write = (text: string) => (path: string) => writeFile(path, text)
  const mixed: [name: string, make: (path: string) => Promise<unknown>, found: string][] = [
    ['a pair of ids and an address', write(JSON.stringify({ ...ids, url: 'http://evil.example' })), 'the member "url"'],
    [
      'a pair of ids and a member of any name',
      write(`{"applicationId":"${id}","organizationId":"${id}","__proto__":{}}`),
      'the member "__proto__"',
    ],
    [
      'a pair of ids and a name of lines',
      write(JSON.stringify({ 'a\nServed at http://evil.example': 1, ...ids })),
      String.raw`the member "a\nServed at http://evil.example"`,
    ],
    ['YAML', write('applicationId: 1'), 'no JSON'],
    ['empty', write(''), 'no JSON'],
    ['an array', write(JSON.stringify([ids])), 'another value'],
    ['null', write('null'), 'another value'],
    [
      'a pair with a slug',
      write(JSON.stringify({ ...ids, applicationId: 'acme/shop' })),
      'an applicationId that is not a UUID',
    ],
    [
      'a pair with a number',
      write(JSON.stringify({ ...ids, organizationId: 1 })),
      'an organizationId that is not a UUID',
    ],
    ['one id', write(JSON.stringify({ applicationId: id })), 'an organizationId that is not a UUID'],
    ['too large', write(`${JSON.stringify(ids)}${' '.repeat(5_000)}`), '5112 bytes'],
    [
      'a symbolic link',
      async (path) => {
        await writeFile(`${path}.other`, JSON.stringify(ids))
        await symlink('project.json.other', path)
      },
      'a symbolic link',
    ],
    ['a folder', (path) => mkdir(path), 'no file'],
  ]
  const refused = async (cwd: string, place = cwd): Promise<Ended> => {
    const { sent, fetch: recorded } = recordingFetch()
    for (const line of ['deploy', 'deployments', 'env ls']) {
      const ended = await terminal.json(line, { cwd, fetch: recorded })
      expect([line, ended.code, ended.document.reason, sent]).toEqual([line, 2, 'usage', []])
      expect(ended.document.message).toContain(`${place}/.platform`)
      expect(ended.document.message).toContain('expected')
    }
    return terminal.json('deploy', { cwd })
  }

  test.for(mixed)(
    'a link that is %s is refused with what it should be, before any request',
    async ([name, make, found]) => {
      const cwd = await terminal.folder(`link ${name}`, { 'index.html': '', 'below/index.html': '' })
      await mkdir(join(cwd, '.platform'))
      await make(join(cwd, '.platform/project.json'))
      const { document } = await refused(cwd)
      expect(document.message).toBe(
        `${cwd}/.platform/project.json is not a link to an application: expected { "organizationId", "applicationId" } in a file of yours, found ${found}`,
      )
      // In a folder above, too.
      const above = await terminal.json('deploy', { cwd: join(cwd, 'below') })
      expect([above.code, above.document.message]).toEqual([2, document.message])
      const [next] = document.next
      if (!next) return
      const ended = await terminal.json(next.command.slice('platform '.length))
      expect([ended.code, ended.document.data.wasLinked]).toEqual([0, true])
      expect((await terminal.json('deploy', { cwd })).code).toBe(8)
    },
  )

  test('a link whose folder is a symbolic link is refused before any request, and what it leads to stays', async () => {
    const elsewhere = await terminal.folder('elsewhere', { '.platform/project.json': projectOf(owner) })
    const cwd = await terminal.folder('linked-elsewhere', { 'index.html': '' })
    await symlink(join(elsewhere, '.platform'), join(cwd, '.platform'))
    await refused(cwd)
    expect((await terminal.json('unlink', { cwd })).code).toBe(2)
    expect((await terminal.json(`link --app ${owner.applicationId}`, { cwd })).code).toBe(2)
    expect(await readdir(join(elsewhere, '.platform'))).toEqual(['project.json'])
  })

  test(
    'a link of somebody else is refused before any request',
    unless(process.getuid?.() === 0 ? undefined : 'giving a file away takes root'),
    async () => {
      const cwd = await terminal.folder('foreign', { 'index.html': '', '.platform/project.json': projectOf(owner) })
      await chown(join(cwd, '.platform/project.json'), 65_534, 65_534)
      expect((await refused(cwd)).document.message).toContain('in a file of yours, found one of user 65534')
    },
  )
})

describe('a platform that answers with escape sequences', () => {
  const EVIL = 'shop\u001b]0;owned\u0007\u001b[2J\u009b31m\u009dx\u009c\u202egpj\u061c\u0007\u001bc\u007f\u001b]0;'
  const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'
  const at = '2026-11-21T09:30:00.000Z'
  const organization = { id, name: EVIL, slug: EVIL, imageUrl: null }
  const application = { id, organizationId: id, name: EVIL, slug: EVIL, organization, rootDirectory: null }
  const deployment = {
    id,
    applicationId: id,
    status: 'FAILED',
    environment: 'production',
    url: `http://x/${EVIL}`,
    failureReason: EVIL,
    retiredAt: null,
    isCurrent: false,
    createdAt: at,
    variables: [{ key: EVIL }],
    git: { commit: EVIL, branch: EVIL, message: EVIL, isDirty: null, pullRequest: null, repository: EVIL },
    sizeBytes: 1,
    environmentId: id,
  }
  const page = (...items: object[]) => ({ items, total: items.length, nextCursor: null })
  const answers: [path: RegExp, body: object, status?: number][] = [
    [
      /\/env-vars$/,
      page(
        { id, key: 'A', value: EVIL, scope: 'application', environmentName: EVIL, sensitive: false },
        { id, key: 'B', value: 'below', scope: 'application', environmentName: null, sensitive: false },
      ),
    ],
    [
      /\/logs$/,
      page({ id, message: EVIL, type: 'WARN', createdAt: at }, { id, message: 'below', type: 'INFO', createdAt: at }),
    ],
    [/\/(?:files|functions|crons)$/, page({ path: EVIL, kind: EVIL, schedule: EVIL })],
    [/\/deployments\/[^/]+$/, deployment],
    [/\/deployments$/, page(deployment)],
    [
      /\/applications$/,
      page(application, {
        ...application,
        id: id.replace('1b7a10', '1b7a11'),
        slug: 'below',
        organization: { ...organization, slug: 'org' },
      }),
    ],
    [/\/organizations$/, page(organization, { ...organization, slug: 'below' })],
    [/\/hostname$/, { error: EVIL }, 409],
  ]
  const answer = (input: string | URL | Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(input as string)
    if (pathname.endsWith('/stream')) {
      const line = JSON.stringify({ id, message: EVIL, type: 'ERROR', createdAt: at })
      const events = `event: log\nid: ${id}\ndata: ${line}\n\nevent: end\ndata: {}\n\n`
      return Promise.resolve(new Response(events, { headers: { 'content-type': 'text/event-stream' } }))
    }
    if (Number(searchParams.get('offset')) > 0) return Promise.resolve(Response.json(page()))
    const [, body, status = 200] = answers.find(([path]) => path.test(pathname)) ?? [undefined, { error: EVIL }, 404]
    return Promise.resolve(Response.json(body, { status }))
  }
  let env: Record<string, string>
  let machine: Terminal
  beforeAll(async () => {
    const claims = Buffer.from(JSON.stringify({ aud: 'http://evil.example', sub: 'x' })).toString('base64url')
    env = { PLATFORM_API_URL: 'http://evil.example', PLATFORM_TOKEN: `e30.${claims}.e30` }
    machine = await newTerminal(server)
  })

  test.for([
    ['apps ls', 0],
    ['orgs ls', 0],
    [`env ls --app ${id}`, 0],
    [`logs ${id} --build`, 0],
    [`deployments --app ${id}`, 0],
    [`inspect ${id}`, 0],
    [`open ${id}`, 0],
    ['link', 8],
    ['deploy', 8],
    [`hostname set shop --app ${id}`, 5],
    [`logs ${id} --build --follow`, 6],
    ['api GET /organizations', 0],
  ] as const)('a hostile platform says nothing to the terminal but text: %s', async ([line, expected]) => {
    for (const flags of [{ isTerminal: true }, { isTerminal: false }])
      for (const asked of [[], ['--json']]) {
        const { code, stdout, stderr } = await machine.run([...line.split(' '), '--non-interactive', ...asked], {
          env,
          fetch: answer,
          ...flags,
        })
        expect([line, code]).toEqual([line, expected])
        const said = flags.isTerminal ? (stdout + stderr).replaceAll(SGR, '') : stdout + stderr
        expect(said).toContain('shop')
        expect(said).not.toMatch(OBEYED)
        // What does not end hides nothing after it.
        if (line.includes('ls')) expect(said).toContain('below')
        if (line === 'apps ls' && asked.length === 0) expect(said).toMatch(/ shop\w+ +shopgpj$/m)
      }
    // What it answered is whole for programs.
    const { document, events } = await machine.json(`${line} --non-interactive`, { env, fetch: answer })
    expect(JSON.stringify([document, events])).toContain(JSON.stringify(EVIL).slice(1, -1))
  })

  test('a question of a hostile platform is text in a terminal', async () => {
    const cwd = await machine.folder('asks')
    const typed = [['Which application is this folder of?', '\u0003']] as const
    const { code, stderr } = await machine.run('link', {
      cwd,
      env: { ...env, NO_COLOR: '1' },
      fetch: answer,
      isTerminal: true,
      typed,
    })
    expect(code).toBe(130)
    // The question itself is drawn with the cursor.
    expect(stderr).toContain('shopgpj')
    for (const text of ['owned', '\u009b', '\u202e', '\u061c', '\u001bc', '\u001b[2J'])
      expect(stderr).not.toContain(text)
  })
})

test('text keeps its lines, its tabs and the colours that are wanted, and nothing else of a terminal', () => {
  for (const [text, plain, coloured = plain] of [
    ['a\tb\nc', 'a\tb\nc'],
    ['\u001b[31mred\u001b[0m', 'red', '\u001b[31mred\u001b[0m'],
    ['\u001b[38;5;1mred\u001b[m', 'red', '\u001b[38;5;1mred\u001b[m'],
    ['\u001b[2Ja\u001b[1;1Hb\u001b[?25lc', 'abc'],
    ['\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\b\u001b]8;;\u001b\\', 'ab'],
    ['\u001b]0;endless\nnext', '\nnext'],
    ['\u001bPdcs\u001b\\a\u001b_apc\u0007b\u001b^pm\u009cc\u001bXsos', 'abc'],
    ['\u001b\u001b[31m[2J', '[2J', '\u001b[31m[2J'],
    ['\u001b[\u001b[31mA', 'A', '\u001b[31mA'],
    ['\u009b31ma\u0090dcs\u009cb\u009dosc\u0007c', 'abc'],
    ['\u001bca\u001b7b\u001b(0c', 'abc'],
    ['a\r\bb\u0000\u007f', 'ab'],
    ['a\u202eb\u2066c\u200fd\u061ce', 'abcde'],
  ] as const) {
    expect([text, visibleText(text, false)]).toEqual([text, plain])
    expect([text, visibleText(text, true)]).toEqual([text, coloured])
  }
})
