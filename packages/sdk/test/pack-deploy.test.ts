import { join } from 'node:path'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { visit } from '../../../services/api/test/deploy.ts'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { listDeploymentFiles, Platform, staticToken } from '../src/index.ts'
import { folder } from '../src/node/folder.ts'
import { type PackOptions, planPack, zip } from '../src/pack/index.ts'
import { deployArchive, deployFolder } from '../src/uploads/index.ts'
import { type Content, makeFolder } from './pack-folder.ts'

let services: TestPlatform
let ana: Owner
let platform: Platform
beforeAll(async () => {
  services = await startPlatform({ hasWorker: true })
  ana = await newOwner(services)
  platform = new Platform({ baseUrl: services.apiUrl, credential: staticToken(ana.token) })
})
afterAll(() => services.close())

/** Deploys what is in a folder, and gives what its pages answer. */
async function deploy(
  files: Record<string, Content>,
  { below = '', ...options }: PackOptions & { below?: string } = {},
) {
  const plan = await planPack(folder(join(await makeFolder(files), below)), options)
  const { applicationId } = ana
  const { id, hostname } = await deployArchive(platform, { deployment: { applicationId }, archive: zip(plan) })
  const get = async (path = '/'): Promise<string> => (await visit(services, hostname, path)).text
  return { id, get }
}

const MODULE = 'node_modules/greeter/index.js'
const greeter = "exports.greet = () => 'hello from node_modules'"
/** The body of a request's handler. */
const GREETS = 'res.end(greet())'

test('Build Output runs with the packages beside a Function, and with those of the project that its filePathMap names', async () => {
  const func = (path: string, filePathMap: object): Record<string, string> => ({
    [`.vercel/output/functions/${path}.func/index.js`]: `const { greet } = require('greeter'); module.exports = (req, res) => ${GREETS}`,
    [`.vercel/output/functions/${path}.func/.vc-config.json`]: JSON.stringify({
      runtime: 'nodejs24.x',
      handler: 'index.js',
      launcherType: 'Nodejs',
      filePathMap,
    }),
  })
  const { get } = await deploy(
    {
      '.gitignore': '.vercel\nnode_modules\n',
      'package.json': JSON.stringify({ scripts: { build: 'vercel build' } }),
      '.vercel/output/config.json': JSON.stringify({ version: 3 }),
      ...func('beside', {}),
      [`.vercel/output/functions/beside.func/${MODULE}`]: greeter,
      ...func('mapped', { [MODULE]: MODULE }),
      [MODULE]: greeter.replace('hello', 'mapped'),
    },
    { prebuilt: true },
  )
  expect(await get('/beside')).toBe('hello from node_modules')
  expect(await get('/mapped')).toBe('mapped from node_modules')
})

test("Nitro's .output is deployed from its own folder, with its packages", async () => {
  const { get } = await deploy(
    {
      '.gitignore': '.output\nnode_modules\n',
      '.output/nitro.json': '{}',
      '.output/public/style.css': '',
      '.output/server/index.mjs': `import { createServer } from 'node:http'
        import { greet } from 'greeter'
        createServer((req, res) => ${GREETS}).listen(process.env.PORT)`,
      [`.output/server/${MODULE}`]: greeter,
    },
    { below: '.output' },
  )
  expect(await get()).toBe('hello from node_modules')
})

test("Next's standalone output runs with its packages, reads through their links and executes their programs", async () => {
  const { get } = await deploy({
    'package.json': JSON.stringify({ scripts: { build: 'next build' }, dependencies: { greeter: '1' } }),
    'server.js': `const { execFileSync } = require('node:child_process')
      const { greet } = require('greeter')
      require('node:http').createServer((req, res) => {
        if (req.url === '/') return ${GREETS}
        res.end(execFileSync('./node_modules/.bin/tool'))
      }).listen(process.env.PORT)`,
    '.next/BUILD_ID': 'x',
    'node_modules/.pnpm/greeter@1/node_modules/greeter/index.js': greeter,
    'node_modules/greeter': { link: '.pnpm/greeter@1/node_modules/greeter' },
    'node_modules/.bin/tool': { link: '../tool/cli.sh' },
    'node_modules/tool/cli.sh': { content: '#!/bin/sh\necho ran\n', mode: 0o755 },
  })
  expect(await get()).toBe('hello from node_modules')
  expect(await get('/tool')).toBe('ran\n')
})

test('pages are served with what a link leads to, by names in every alphabet, and without what was left out', async () => {
  const { id, get } = await deploy({
    '.gitignore': 'drafts\n',
    'index.html': '<h1>Grüße</h1>',
    'seite/größe.html': 'große Seite',
    'latest.html': { link: 'seite/größe.html' },
    'drafts/secret.html': '',
    'server.key': '-----BEGIN PRIVATE KEY-----\n',
    'node_modules/own/index.js': '',
  })
  expect(await get('/latest')).toBe('große Seite')
  const { items } = await listDeploymentFiles(platform, { id })
  expect(items.map(({ path }) => path)).toEqual(['index.html', 'latest.html', 'seite/größe.html'])
})

test('deployArchive ends once the archive is uploaded where it is told not to wait, and asks for no log', async () => {
  const asked: string[] = []
  const watched = new Platform({
    baseUrl: services.apiUrl,
    credential: staticToken(ana.token),
    fetch(url, init) {
      asked.push(new URL(url).pathname)
      return fetch(url, init)
    },
  })
  const steps: string[] = []
  const { applicationId } = ana
  const { id, status } = await deployArchive(watched, {
    deployment: { applicationId },
    archive: zip(await planPack(folder(await makeFolder({ 'index.html': '' })))),
    wait: false,
    onProgress: ({ step }) => void steps.push(step),
  })
  expect([status === 'FAILED', steps, asked.at(-1)]).toEqual([
    false,
    ['created', 'sent', 'complete'],
    `/deployments/${id}`,
  ])
  expect(asked.filter((path) => path.endsWith('/stream'))).toEqual([])
})

test('a deployment shows what deployFolder was told about the commit', async () => {
  const { applicationId } = ana
  const source = folder(await makeFolder({ 'index.html': '' }))
  const git = { commit: '8f3b6f0', branch: 'main', isDirty: true }
  const { status, git: shown } = await deployFolder(platform, { applicationId, source, git })
  expect([status, shown]).toEqual(['ACTIVE', { ...git, message: null, pullRequest: null, repository: null }])
})
