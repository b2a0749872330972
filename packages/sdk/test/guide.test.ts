import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { approveDevice } from '@platform/testkit/approve-device'
import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy, visit } from '../../../services/api/test/deploy.ts'
import { newKey, newOwner, storeObject, tokenOf } from '../../../services/api/test/scenario.ts'
import { commandLineClient } from '../../../services/idp/src/commands/init.ts'
import { createClient } from '../../../services/idp/src/features/clients/clients.ts'
import { bundle } from './bundle.ts'
import { guidePath, type GuidePrograms, type RunOptions, writePrograms } from './guide-programs.ts'

let guide: GuidePrograms
let server: TestPlatform
beforeAll(async () => {
  guide = await writePrograms()
  server = await startPlatform({ hasWorker: true })
  await createClient(server.idp, commandLineClient)
})
afterAll(async () => {
  await guide.close()
  await server.close()
})

/** Runs a program to its end. */
const run = (name: string, options: RunOptions) => guide.start(name, options).end()

const succeeded = (stdout: unknown) => ({ code: 0, stdout, stderr: '' })

/** Somebody with an application, and the environment of programs that hold a key of it. */
async function newProgramOwner(...scopes: string[]) {
  const owner = await newOwner(server)
  const { id, secret } = await newKey(server, owner, scopes)
  const env = {
    PLATFORM_API_URL: server.apiUrl,
    PLATFORM_CLIENT_ID: id,
    PLATFORM_CLIENT_SECRET: secret,
    PLATFORM_APPLICATION_ID: owner.applicationId,
  }
  return { owner, env }
}

const newFolder = () => mkdtemp(join(guide.folder, 'of-'))

async function writeFiles(files: Record<string, string>): Promise<string> {
  const folder = await newFolder()
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(folder, dirname(path)), { recursive: true })
    await writeFile(join(folder, path), content)
  }
  return folder
}

/** A home in which somebody is signed in by an access token. */
const newHome = (accessToken: string) => {
  const signIn = { baseUrl: server.apiUrl, issuer: server.idpUrl, clientId: 'any', expiresAt: Date.now() + 300_000 }
  return writeFiles({ '.platform/token.json': JSON.stringify({ ...signIn, accessToken }) })
}

test('the guide has ten complete programs, which compile in strict mode', async () => {
  expect([...guide.programs.keys()].toSorted()).toEqual([
    'chat.ts',
    'create-a-key.ts',
    'deploy-a-folder.ts',
    'follow-requests.ts',
    'list-applications.ts',
    'list-files.ts',
    'other-clients.ts',
    'sign-in-on-a-device.ts',
    'sign-in-on-a-page.ts',
    'upload-a-file.ts',
  ])
  await guide.compile()
})

test('the guide installs the file that the platform serves, nothing of a registry and nothing for the whole machine', async () => {
  const text = await readFile(guidePath, 'utf8')
  const commands = text.match(/\b(?:npx|bunx|(?:npm|pnpm|yarn|bun) (?:i|install|add|exec|dlx))\b.*/g)
  expect(commands).toEqual(['npm i ./sdk-{version}-{hash}.tgz'])
})

test.concurrent('the guide lists the applications that an API key reaches', async () => {
  const { owner, env } = await newProgramOwner('network:applications:read')
  const { body } = await server.call(owner.token, `GET /applications`)
  const { PLATFORM_APPLICATION_ID: id, ...reach } = env
  const [{ name }] = body.items as [{ name: string }]
  expect(await run('list-applications.ts', { env: reach })).toEqual(succeeded(`${id} ${name}\n`))
})

test.concurrent('the guide signs a person in on a device, and renews the sign-in of its file the next time', async () => {
  const { person, organizationId, token } = await newOwner(server)
  const { body } = await server.call(token, `GET /organizations/${organizationId}`)
  const env = { PLATFORM_API_URL: server.apiUrl, HOME: await newFolder() }
  const first = guide.start('sign-in-on-a-device.ts', { env })
  const [, completeUrl = '', userCode = ''] = await first.print(/Open (\S+) and look for (\S+)\n/)
  await approveDevice({ completeUrl, userCode }, person)
  const { stdout, code } = await first.end()
  expect([code, stdout.split('\n').slice(1)]).toEqual([0, [body.name, '']])

  const file = join(env.HOME, '.platform/token.json')
  const kept = JSON.parse(await readFile(file, 'utf8')) as { refreshToken: string }
  await writeFile(file, JSON.stringify({ ...kept, expiresAt: 0 }))
  expect(await run('sign-in-on-a-device.ts', { env })).toEqual(succeeded(`${body.name}\n`))
  const renewed = JSON.parse(await readFile(file, 'utf8')) as { refreshToken: string }
  expect(renewed.refreshToken).not.toBe(kept.refreshToken)
})

test.concurrent('the guide signs each visitor of a page in by a code', async () => {
  const { person, organizationId, token } = await newOwner(server)
  const { body } = await server.call(token, `GET /organizations/${organizationId}`)
  const program = guide.start('sign-in-on-a-page.ts', { env: { PLATFORM_API_URL: server.apiUrl } })
  const [, url = ''] = await program.print(/Open (\S+)\n/)
  const browser = new Browser()
  const { idpUrl } = server
  let page = await browser.follow(await browser.visit(url), idpUrl)
  page = await browser.follow(await browser.submit(page, { email: person.email, password: person.password }), idpUrl)
  page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: 'approve' }), idpUrl)
  page = await browser.follow(page, new URL(url).origin)
  expect([page.status, page.body]).toEqual([200, body.name])
  expect((await new Browser().visit(url)).location).toContain(`${idpUrl}/oauth2/authorize`)
  expect((await new Browser().visit(new URL(page.url).origin + '/callback?code=x&state=y')).status).toBe(404)
  program.process.kill()
  expect((await program.end()).stderr).toBe('')
})

test.concurrent('the guide deploys a Function that lists the bucket of its own environment, and prints the log', async () => {
  const { owner, env } = await newProgramOwner('network:deployments:trigger', 'network:deployments:read')
  const place = `applications/${owner.applicationId}/environments/production`
  const bucket = await server.call(owner.token, `POST /${place}/storage/buckets`, { name: 'media' })
  await storeObject(server, bucket.body.id, 'cat.jpg', 'x')
  const func = '.vercel/output/functions/index.func'
  const folder = await writeFiles({
    '.env': 'PASSWORD=canary',
    '.vercel/output/config.json': '{"version":3}',
    [`${func}/.vc-config.json`]: '{"runtime":"nodejs24.x","handler":"index.mjs","launcherType":"Nodejs"}',
    [`${func}/index.mjs`]: await bundle(guide.programs.get('list-files.ts') ?? '', 'node'),
  })
  const { code, stdout } = await run('deploy-a-folder.ts', { env, args: [folder] })
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      /^3 files, \d+ bytes\nLeft out: \.env may hold secrets, by its name\nINFO .+\n[^]*\nhttp\S+\n$/,
    ),
  ])
  const { host } = new URL(stdout.trim().split('\n').at(-1) ?? '')
  expect((await visit(server, host)).text).toBe('["cat.jpg"]')
})

test.concurrent('the guide says why a deployment failed', async () => {
  const { env } = await newProgramOwner('network:deployments:trigger', 'network:deployments:read')
  const folder = await writeFiles({ '.vercel/output/config.json': '{"version":2}' })
  const { code, stderr } = await run('deploy-a-folder.ts', { env, args: [folder] })
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^It failed: .+\n$/)])
})

test.concurrent('the guide goes on with an upload whose process was killed', async () => {
  const { env } = await newProgramOwner('network:storage:read', 'network:storage:write')
  const content = randomBytes(20_000_000)
  const folder = await newFolder()
  const path = join(folder, 'film.mp4')
  await writeFile(path, content)
  const killed = guide.start('upload-a-file.ts', { env, args: [path] })
  await killed.print(/ of 20000000 bytes\n/)
  killed.process.kill('SIGKILL')
  await killed.end()
  const { code, stdout } = await run('upload-a-file.ts', { env, args: [path] })
  const sha256 = createHash('sha256').update(content).digest('hex')
  expect([code, stdout]).toEqual([0, expect.stringContaining(`\nStored film.mp4, SHA-256 ${sha256}\n`)])
  expect(Number.parseInt(stdout)).toBeGreaterThan(8_388_608)
  await expect(readFile(`${path}.upload`)).rejects.toThrow('ENOENT')
})

test.concurrent('the guide follows the requests of a site until it is interrupted', async () => {
  const { owner, env } = await newProgramOwner('network:applications:read')
  const { host } = await deploy(server, owner, { files: { 'index.html': 'Hello' } })
  const program = guide.start('follow-requests.ts', { env })
  await program.print(/^live\n/)
  await visit(server, host, '/missing')
  await program.print(/^GET \/missing 404\n/m)
  program.process.kill('SIGINT')
  expect(await program.end()).toEqual(succeeded('live\nGET /missing 404\n'))
})

test.concurrent('the guide streams a chat', async () => {
  const { env } = await newProgramOwner('network:ai_gateway:chat')
  expect(await run('chat.ts', { env, args: ['Good morning'] })).toEqual(
    succeeded(expect.stringMatching(/Good morning\n$/)),
  )
})

test.concurrent('the guide keeps what an openai client was answered by an S3 client', async () => {
  const { owner, env } = await newProgramOwner(
    'network:storage:read',
    'network:storage:write',
    'network:ai_gateway:chat',
  )
  const place = `applications/${owner.applicationId}/environments/production`
  await server.call(owner.token, `POST /${place}/storage/buckets`, { name: 'media' })
  expect(await run('other-clients.ts', { env })).toEqual(succeeded(expect.stringMatching(/Remember this\n$/)))
})

test.concurrent('the guide creates an API key, and explains why it could not', async () => {
  const owner = await newOwner(server)
  const env = { PLATFORM_API_URL: server.apiUrl, PLATFORM_APPLICATION_ID: owner.applicationId }
  const HOME = await newHome(owner.token)
  const create = (args: string[], more: RunOptions = {}) =>
    run('create-a-key.ts', { args, ...more, env: { ...env, HOME, ...more.env } })

  const { code, stdout, stderr } = await create(['ci', 'network:applications:read'])
  expect([code, stderr]).toEqual([0, ''])
  const [, id = '', secret = ''] = /^PLATFORM_CLIENT_ID=(.+)\nPLATFORM_CLIENT_SECRET=(.+)\n$/.exec(stdout) ?? []
  await tokenOf(server, id, secret)

  const lost = await create(['lost'], {
    nodeArgs: ['--import', join(import.meta.dirname, 'guide-lost-answer-process.ts')],
  })
  const { body } = await server.call(owner.token, `GET /api-keys?applicationId=${owner.applicationId}`)
  const keys = body.items as { id: string; name: string }[]
  const ids = keys.filter(({ name }) => name === 'lost').map((key) => key.id)
  expect(ids).toHaveLength(1)
  const failures = [lost, await create(['']), await create(['ci'], { env: { HOME: await newFolder() } })]
  expect(failures).toEqual(
    [
      `Nobody has the secret of one of these keys: ${ids[0]}\n`,
      expect.stringMatching(/^POST \/api-keys: .+ \(422, request [\w-]+, 1 sent\)\n\/?name: .+\n$/),
      'Sign in first.\n',
    ].map((said) => ({ code: 1, stdout: '', stderr: said })),
  )
})

// Last, since the tokens of the others end with it.
test('the guide says that a person has to sign in again before they create an API key', async () => {
  const person = await server.person()
  const { applicationId } = await newOwner(server, person)
  await person.token(everyScope, { console: true, signInAgain: true })
  server.clock.advance(901_000)
  const HOME = await newHome(await person.token(everyScope, { console: true }))
  const env = { PLATFORM_API_URL: server.apiUrl, PLATFORM_APPLICATION_ID: applicationId, HOME }
  const { code, stderr } = await run('create-a-key.ts', { env })
  expect([code, stderr]).toEqual([1, 'Sign in again: it was more than 900 seconds ago.\n'])
})
