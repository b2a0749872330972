import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { join, resolve } from 'node:path'
import { buildsFrameworks, frameworksFolder } from '@platform/testkit/test-environment'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { type Got, visit } from './deploy.ts'
import { logOf, newDeployment, until } from './deployments.ts'
import { registryUrl, runTool } from './run-tool.ts'
import { newOwner, type Owner } from './scenario.ts'
import { EXECUTABLE, FILE, LINK, type ZipEntry } from './zip.ts'

const SOURCES = join(import.meta.dirname, 'frameworks')
/** Long enough to install and build on a machine that does other things too. */
const BUILD_MS = 300_000

/** The sources of a fixture: everything that is committed, by path. */
async function sourcesOf(name: string): Promise<string[]> {
  const root = join(SOURCES, name)
  const ignored = readFileSync(join(root, '.gitignore'), 'utf8').split('\n').filter(Boolean)
  const rows = await readdir(root, { recursive: true, withFileTypes: true })
  return rows
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .filter((path) => !path.split('/').some((segment) => ignored.includes(segment)))
    .sort()
}

async function fingerprint(name: string, more: object): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(more))
  for (const path of await sourcesOf(name)) hash.update(`${path}\0`).update(await readFile(join(SOURCES, name, path)))
  return hash.digest('hex')
}

/** Copies a fixture to where it is built and installs what its lockfile names. Answers the folder. */
async function install(name: string): Promise<string> {
  if (frameworksFolder === undefined) throw new Error('TEST_FRAMEWORKS is not set')
  const folder = resolve(frameworksFolder, name)
  await mkdir(folder, { recursive: true })
  for (const entry of await readdir(folder))
    if (entry !== 'node_modules') await rm(join(folder, entry), { recursive: true })
  for (const path of await sourcesOf(name)) cpSync(join(SOURCES, name, path), join(folder, path))
  const lock = createHash('sha256')
    .update(await readFile(join(SOURCES, name, 'package-lock.json')))
    .digest('hex')
  const stamp = join(folder, 'node_modules/.installed-lock')
  if (existsSync(stamp) && (await readFile(stamp, 'utf8')) === lock) return folder
  await runTool(folder, 'npm', ['ci', '--no-audit', '--no-fund', '--prefer-offline'])
  await writeFile(stamp, lock)
  return folder
}

interface Building {
  /** The framework by the name that `vercel build` knows; without one the fixture's own `build` script writes Build Output. */
  vercel?: string
  /** Variables that the build reads. */
  variables?: Record<string, string>
}

/** Has a fixture built by its framework, unless that was done with the same sources, lockfiles and Node. Answers the folder. */
export async function buildFixture(name: string, { vercel, variables = {} }: Building = {}): Promise<string> {
  const cli = vercel === undefined ? undefined : await fingerprint('vercel', {})
  const print = await fingerprint(name, { vercel, cli, variables, node: process.version })
  const stamp = resolve(frameworksFolder ?? '', name, '.built')
  if (existsSync(stamp) && (await readFile(stamp, 'utf8')) === print) return resolve(frameworksFolder ?? '', name)
  const folder = await install(name)
  if (vercel === undefined) await runTool(folder, 'npm', ['run', 'build'], variables)
  else {
    const program = join(await install('vercel'), 'node_modules/vercel/dist/index.js')
    await mkdir(join(folder, '.vercel'))
    // As `vercel link` leaves it; nobody is asked whether there is such a project.
    const project = { projectId: 'prj_fixture', orgId: 'team_fixture', settings: { framework: vercel } }
    await writeFile(join(folder, '.vercel/project.json'), JSON.stringify(project))
    await runTool(folder, 'node', [program, 'build', '--prod', '--yes'], variables)
  }
  await writeFile(stamp, print)
  return folder
}

/** Everything in a folder as entries of an archive; links stay links. */
export async function entriesOf(root: string, text: string): Promise<ZipEntry[]> {
  const rows = await readdir(join(root, text), { recursive: true, withFileTypes: true })
  return rows
    .filter((entry) => !entry.isDirectory())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const name = path.slice(root.length + 1)
      return entry.isSymbolicLink() ? { name, content: readlinkSync(path), mode: LINK } : fileEntry(root, name)
    })
}

const fileEntry = (root: string, name: string): ZipEntry => ({
  name,
  content: readFileSync(join(root, name)),
  mode: lstatSync(join(root, name)).mode & 0o100 ? EXECUTABLE : FILE,
})

/** What `vercel deploy --prebuilt` uploads: Build Output, and the files outside of it that its Functions name. */
async function prebuiltArchive(folder: string): Promise<ZipEntry[]> {
  const output = await entriesOf(folder, '.vercel/output')
  const named = output
    .filter(({ name, mode }) => String(name).endsWith('/.vc-config.json') && mode !== LINK)
    .flatMap(({ content }) => {
      const { filePathMap = {} } = JSON.parse(String(content)) as { filePathMap?: Record<string, string> }
      return Object.values(filePathMap)
    })
  return [
    ...output,
    ...[...new Set(named)].filter((name) => !name.startsWith('.vercel/output/')).map((name) => fileEntry(folder, name)),
  ]
}

/** Has npm find packages where it does on this machine. */
export const npmrcOf = async (own = ''): Promise<ZipEntry> => ({
  name: '.npmrc',
  content: `${own}registry=${await registryUrl()}\n`,
  mode: FILE,
})

/** What a person uploads who lets the platform build. */
async function sourceArchive(name: string): Promise<ZipEntry[]> {
  const paths = await sourcesOf(name)
  const entries = paths.map((path) => ({ name: path, content: readFileSync(join(SOURCES, name, path)), mode: FILE }))
  return [...entries, await npmrcOf()]
}

type Way = [name: string, archiveOf: (fixture: string) => Promise<ZipEntry[]>, isSource: boolean]

/** The ways to one site: built here by the framework's own tools, and built by the platform. */
const waysTo = (build: Framework['build']): Way[] => [
  ['as its own build leaves it', async (fixture) => prebuiltArchive(await build(fixture)), false],
  ...(buildsFrameworks ? [['as source', sourceArchive, true] satisfies Way] : []),
]

/** A fixture that is ACTIVE. */
export interface Site {
  platform: TestPlatform
  owner: Owner
  id: string
  host: string
  url: string
  get: (path: string, headers?: OutgoingHttpHeaders, method?: string, body?: string) => Promise<Got>
}

/** Deploys an archive into an application of its own that has these variables, and waits until it is ACTIVE. */
async function deploySite(
  platform: TestPlatform,
  archive: readonly ZipEntry[],
  variables: Record<string, string>,
): Promise<Omit<Site, 'get'>> {
  const owner = await newOwner(platform)
  for (const [key, value] of Object.entries(variables)) {
    const made = await platform.call(owner.token, `POST /applications/${owner.applicationId}/env-vars`, {
      key,
      value,
      sensitive: false,
    })
    expect(made.status, made.text).toBe(201)
  }
  const { id } = await newDeployment(platform, owner, { archive })
  const ended = await until(platform, id, ({ status }) => status === 'ACTIVE' || status === 'FAILED', BUILD_MS)
  if (ended.status !== 'ACTIVE') throw new Error(`${ended.failureReason}\n${await logOf(platform, id)}`)
  const host = `${ended.label}.${platform.api.appsUrl.host}`
  return { platform, owner, id, host, url: `http://${host}` }
}

interface Framework {
  /** Has a fixture built by the framework's own tools, and returns the folder. */
  build: (fixture: string) => Promise<string>
  /** Of the application. */
  variables: Record<string, string>
}

/**
 * Describes what a framework's fixtures do, once as the framework's own tools build them and once as the platform builds them from source.
 * Building takes minutes, so all of it is skipped unless TEST_FRAMEWORKS names a folder to build in.
 *
 * body: `deploy` deploys a fixture before the tests of the describe that calls it; of the site that it returns, only `get` is there earlier.
 */
export function describeFramework(
  name: string,
  { build, variables }: Framework,
  body: (deploy: (fixture: string) => Site, isSource: boolean) => void,
): void {
  const isSkipped = frameworksFolder === undefined
  const where = isSkipped ? 'TEST_FRAMEWORKS names the folder to build it in' : 'built by its own tools'
  describe.skipIf(isSkipped)(`${name} (${where})`, () => {
    let platform: TestPlatform
    beforeAll(async () => {
      const sources = buildsFrameworks && { BUILD_EGRESS: 'registry', BUILD_REGISTRIES: await registryUrl() }
      platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro', ...sources } })
    })
    afterAll(() => platform.close())

    describe.each(waysTo(build))('%s', (_, archiveOf, isSource) => {
      const deploy = (fixture: string): Site => {
        const site = {
          get: (path, headers = {}, method = 'GET', content) =>
            visit(platform, site.host, path, { method, headers, ...(content !== undefined && { body: content }) }),
        } as Site
        beforeAll(async () => {
          Object.assign(site, await deploySite(platform, await archiveOf(fixture), variables))
        })
        return site
      }
      body(deploy, isSource)
    })
  })
}

/** The pieces of an answer, with the milliseconds between its request and each. */
export async function piecesOf(
  { platform, host }: Site,
  path: string,
  headers: OutgoingHttpHeaders = {},
): Promise<{ text: string; ms: number }[]> {
  const { port } = new URL(platform.edgeUrl)
  const startedAt = performance.now()
  const sent = request({ port, host: 'localhost', path, headers: { host, ...headers } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const pieces: { text: string; ms: number }[] = []
  for await (const piece of answer) pieces.push({ text: String(piece), ms: performance.now() - startedAt })
  return pieces
}

/** Whether texts of a short answer came one after another, each in a piece of its own: none waited for the next. */
export function areInTurn(pieces: readonly { text: string }[], texts: readonly string[]): boolean {
  const places = texts.map((text) => pieces.findIndex((piece) => piece.text.includes(text)))
  return places.every((place, n) => place > (places[n - 1] ?? -1))
}

/** When a text was there, in milliseconds after the request. */
export function arrivalOf(pieces: readonly { text: string; ms: number }[], wanted: string): number {
  let whole = ''
  for (const { text, ms } of pieces) {
    whole += text
    if (whole.includes(wanted)) return ms
  }
  throw new Error(`${JSON.stringify(wanted)} never came: ${whole}`)
}

/** When a page was made, as it says in its first `<time>`. */
export function timeIn(text: string): number {
  const value = /<time[^>]*>(\d+)</.exec(text)?.[1]
  if (value === undefined) throw new Error(`The page has no time: ${text.slice(0, 500)}`)
  return Number(value)
}

/** Whether a page was kept: by the edge, or by the server of Next.js, whose pages pass the edge by. */
export const keptAs = ({ headers }: Got): unknown => headers['x-nextjs-cache'] ?? headers['x-cache']

/**
 * Waits until a page is older than it may become, and returns it as it is shown once more. By real time: tags are compared by the clock of
 * the database, which a test cannot move.
 */
export async function untilStale({ get }: Site, path: string): Promise<Got> {
  let page: Got | undefined
  await expect.poll(async () => keptAs((page = await get(path))), { message: `${path} becomes stale` }).toBe('STALE')
  return page!
}

/** Waits for a page that was made later than one that is old: it is made behind the visitor who got the old one. */
export async function becomesNewer({ get }: Site, path: string, than: number): Promise<number> {
  let time = than
  await expect
    .poll(async () => (time = timeIn((await get(path)).text)), { message: `${path} becomes newer` })
    .toBeGreaterThan(than)
  return time
}

/** Checks that a kept page is the same while it is fresh, then is shown once more as it was, and then is newer. */
export async function expectRenewal(site: Site, path: string): Promise<void> {
  const time = timeIn((await site.get(path)).text)
  expect(timeIn((await site.get(path)).text), path).toBe(time)
  expect(timeIn((await untilStale(site, path)).text), path).toBe(time)
  await becomesNewer(site, path, time)
}

/** Clicks links one after another, each once the heading of the one before is there. */
export async function followLinks(page: Page, links: readonly (readonly [path: string, heading: string])[]) {
  for (const [path, heading] of links) {
    await page.click(`a[href="${path}"]`)
    await expect.poll(() => page.textContent('h1'), { message: path }).toBe(heading)
  }
}

/** What goes wrong in a page, as it happens: errors in its console, what it throws, and requests that fail. */
export function faultsOf(page: Page): string[] {
  const faults: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning')
      faults.push(`console: ${message.text()} ${message.location().url}`)
  })
  page.on('pageerror', (error) => faults.push(`thrown: ${error.message}`))
  page.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText ?? ''
    // What a page asked ahead for and left before it came.
    if (reason !== 'net::ERR_ABORTED') faults.push(`failed: ${request.url()} ${reason}`)
  })
  page.on('response', (response) => {
    if (response.status() >= 400) faults.push(`${response.status()}: ${response.url()}`)
  })
  return faults
}
