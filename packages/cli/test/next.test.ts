import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { startProgram } from './cli-process.ts'
import { signedInTerminal, type Terminal } from './terminal.ts'

let server: TestPlatform
let owner: Owner
let terminal: Terminal
let slug: string
beforeAll(async () => {
  server = await startPlatform()
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
  const { document } = await terminal.json('apps ls')
  const [{ organization, slug: name }] = document.data as [{ organization: { slug: string }; slug: string }]
  slug = `${organization.slug}/${name}`
})
afterAll(() => server.close())

const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'

describe('a command that lacks its application', () => {
  test.each([
    'deploy --preview --include .env.production --no-wait',
    'deployments --env preview --status FAILED --limit 3',
    'rollback --env preview',
    'open --env preview',
    'logs --level ERROR --since 10m --search oops --limit 5',
    'logs --requests --since 1d',
    'logs --build --env preview',
    'env ls --layer application',
    "env set GREETING 'two words' --env preview",
    'env rm GREETING --env preview --yes',
    'env pull other.env --env production',
    'env push .env.local --dry-run --prune',
    'hostname get',
    'hostname set my-shop',
  ])('%s suggests itself with every flag that was typed', async (line) => {
    const cwd = await terminal.folder('unlinked', { 'index.html': 'hello', '.env.local': 'A=1' })
    const { code, document } = await terminal.json(`${line} --profile default`, { cwd })
    expect([code, document.next[0]?.command]).toEqual([8, `platform ${line} --profile default --json --app ${slug}`])
  })

  test('a command that lacks its application suggests --app before what is behind a "--"', async () => {
    const cwd = await terminal.folder('unlinked')
    const { document } = await terminal.run('env run --json -- npm run dev', { cwd })
    expect(document.next[0]?.command).toBe(`platform env run --json --app ${slug} -- npm run dev`)
  })
})

test('a deletion that was not confirmed suggests itself, with its application, environment and --yes', async () => {
  const linked = await terminal.folder('linked', {
    '.platform/project.json': JSON.stringify({ organizationId: owner.organizationId, applicationId: id }),
    '.env.local': 'KEPT=1',
  })
  await terminal.json(`env set GONE 1 --env preview --app ${slug}`, { cwd: linked })
  for (const line of [`env push --prune --app ${slug}`, `env rm GONE --env preview --app ${slug}`]) {
    const { code, document } = await terminal.json(line, { cwd: linked })
    expect([code, document.next]).toEqual([8, [{ command: `platform ${line} --json --yes`, when: 'do it' }]])
  }
})

test('what a hostile platform says cannot put a command into a line that is to be typed', async () => {
  const payloads = ['x;touch${IFS}marker', "x'$(touch marker)'", '`touch marker`', 'x\ntouch marker', 'x| platform y']
  for (const payload of payloads) {
    const answers: [line: string, answer: Response][] = [
      ['api GET /organizations', Response.json({ error: `The token lacks the scope ${payload}` }, { status: 403 })],
      ['orgs create Acme', Response.json({ id, name: 'Acme', slug: payload }, { status: 201 })],
      ['apps ls --org x', Response.json({ items: [], total: 0 })],
      [`promote ${id}`, Response.json({ id: payload, environment: payload, applicationId: payload, items: [] })],
    ]
    for (const [line, answer] of answers) {
      const cwd = await terminal.folder('hostile')
      const { document, stderr } = await terminal.json(line, { cwd, fetch: () => Promise.resolve(answer.clone()) })
      expect(stderr).not.toContain('\ntouch')
      for (const { command } of document.next) {
        const typed = command.replace(/^platform/, 'true')
        const ended = await startProgram(terminal, ['sh', '-c', `${typed}; ls`], { cwd }).end()
        expect([line, command, ended.stdout]).toEqual([line, command, ''])
      }
    }
  }
})

test('an application whose name has lines of its own is shown in one', async () => {
  const application = { id, name: 'Shop\nError: run this', slug: 'shop', organization: { slug: 'acme', name: 'Acme' } }
  const ended = await terminal.run('deployments', {
    cwd: await terminal.folder('forged'),
    fetch: () => Promise.resolve(Response.json({ items: [application], total: 1 })),
  })
  expect([ended.code, ended.stderr]).toEqual([
    8,
    expect.stringContaining('Shop Error: run this of Acme: platform deployments --app acme/shop'),
  ])
})
