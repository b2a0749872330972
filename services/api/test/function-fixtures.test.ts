import { lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { visit } from './deploy.ts'
import { logOf, newDeployment, untilEnded } from './deployments.ts'
import { newOwner, type Owner } from './scenario.ts'
import { FILE, LINK, type ZipEntry } from './zip.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

/** Everything in a folder as entries of an archive; links stay links. */
function entriesOf(root: string, text = ''): ZipEntry[] {
  return readdirSync(join(root, text)).flatMap((name): ZipEntry[] => {
    const path = text === '' ? name : `${text}/${name}`
    const source = join(root, path)
    const stats = lstatSync(source)
    if (stats.isSymbolicLink()) return [{ name: path, content: readlinkSync(source), mode: LINK }]
    return stats.isDirectory() ? entriesOf(root, path) : [{ name: path, content: readFileSync(source), mode: FILE }]
  })
}

/** What `npm install` would put into node_modules: packages and what they depend on. */
function installed(...names: string[]): ZipEntry[] {
  const entries = new Map<string, ZipEntry>()
  const add = (name: string, from: string): void => {
    if (entries.has(`node_modules/${name}/package.json`)) return
    const require = createRequire(from)
    const paths = require.resolve.paths(name) ?? []
    const root = paths.map((path) => join(path, name)).find((path) => lstatSync(path, { throwIfNoEntry: false }))
    if (root === undefined) throw new Error(`${name} is not installed`)
    const real = realpathSync(root)
    const manifest = JSON.parse(readFileSync(join(real, 'package.json'), 'utf8')) as {
      dependencies?: Record<string, string>
    }
    for (const entry of entriesOf(real))
      if (/\.(?:[cm]?js|json)$/.test(String(entry.name)) && !String(entry.name).includes('node_modules/'))
        entries.set(`node_modules/${name}/${String(entry.name)}`, {
          ...entry,
          name: `node_modules/${name}/${String(entry.name)}`,
        })
    for (const dependency of Object.keys(manifest.dependencies ?? {})) add(dependency, join(real, 'package.json'))
  }
  for (const name of names) add(name, import.meta.url.replace('file://', ''))
  return [...entries.values()]
}

async function deploy(archive: readonly ZipEntry[]) {
  const { id } = await newDeployment(platform, ana, { archive })
  const { status, failureReason, label } = await untilEnded(platform, id)
  if (status !== 'ACTIVE') throw new Error(`${failureReason}\n${await logOf(platform, id)}`)
  return { id, host: `${label}.${platform.api.appsUrl.host}` }
}

const packageJson = (more: object = {}): ZipEntry => ({
  name: 'package.json',
  content: JSON.stringify({ type: 'module', ...more }),
})

test('a server of Hono', async () => {
  const { host } = await deploy([
    packageJson({ scripts: { start: 'node server.js' } }),
    {
      name: 'server.js',
      content: `import { serve } from '@hono/node-server'
        import { Hono } from 'hono'
        const app = new Hono()
        app.get('/hello/:name', (c) => c.json({ hello: c.req.param('name'), host: c.req.header('host') }))
        app.post('/echo', async (c) => c.text(await c.req.text()))
        serve({ fetch: app.fetch, port: Number(process.env.PORT) })`,
    },
    ...installed('hono', '@hono/node-server'),
  ])
  expect(JSON.parse((await visit(platform, host, '/hello/ana')).text)).toEqual({ hello: 'ana', host })
  expect((await visit(platform, host, '/echo', { method: 'POST', body: 'x'.repeat(100_000) })).text).toHaveLength(
    100_000,
  )
})

test('an application of Express, as a server and as a Function', async () => {
  const app = `import express from 'express'
    const app = express()
    app.use(express.json())
    app.post('/sum', (req, res) => res.json({ sum: req.body.a + req.body.b, ip: req.get('x-forwarded-for') !== undefined }))
    app.get('/', (req, res) => res.type('html').send('<h1>Express</h1>'))`
  const server = await deploy([
    packageJson({ scripts: { start: 'node --no-warnings server.js' } }),
    { name: 'server.js', content: `${app}\napp.listen(process.env.PORT)` },
    ...installed('express'),
  ])
  const output = '.vercel/output/functions/index.func'
  const asFunction = await deploy([
    { name: '.vercel/output/config.json', content: '{"version":3,"routes":[{"src":"/.*","dest":"/"}]}' },
    {
      name: `${output}/.vc-config.json`,
      content: '{"runtime":"nodejs24.x","handler":"app.js","launcherType":"Nodejs"}',
    },
    { ...packageJson(), name: `${output}/package.json` },
    { name: `${output}/app.js`, content: `${app}\nexport default app` },
    ...installed('express').map((entry) => ({ ...entry, name: `${output}/${String(entry.name)}` })),
  ])
  for (const { host } of [server, asFunction]) {
    expect(await visit(platform, host, '/')).toMatchObject({ status: 200, text: '<h1>Express</h1>' })
    const sum = await visit(platform, host, '/sum', {
      method: 'POST',
      body: '{"a":1,"b":2}',
      headers: { 'content-type': 'application/json' },
    })
    expect(JSON.parse(sum.text)).toEqual({ sum: 3, ip: true })
  }
})
