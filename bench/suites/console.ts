import { ok } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { accessSync, constants } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify, stripVTControlCharacters } from 'node:util'
import { Browser as Pages } from '@platform/testkit/browser'
import { freePort } from '@platform/testkit/free-port'
import { signIn } from '@platform/testing/oauth-flow'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import postgres from 'postgres'
import type { Lab } from '../lab.ts'
import { startServer } from '../server-process.ts'
import type { Suite, Trial } from '../suite.ts'

const run = promisify(execFile)
const repository = resolve(import.meta.dirname, '../..')
const person = { email: 'bench@example.com', password: randomBytes(18).toString('base64url') }
const client = '0198c0de-0000-7000-8000-0000000000c2'
const DEPLOYMENTS = 10_000
/** Those before are retired, as the worker would leave them. */
const UNRETIRED = 100

interface Console {
  url: string
  /** Of the application with the deployments. */
  path: string
  sql: postgres.Sql
  /** Adds a deployment of another application, BUILDING, and answers the path of its page. */
  addBuild(): Promise<{ id: string; path: string }>
  /** A browser of its own with a warm cache and the person signed in at the provider. */
  openContext(): Promise<BrowserContext>
}

const consoles = new WeakMap<Lab, Promise<Console>>()

/** One for all suites of a run. */
function consoleOf(lab: Lab): Promise<Console> {
  const opened = consoles.get(lab) ?? startConsole(lab)
  consoles.set(lab, opened)
  return opened
}

function findChromium(path: string): string {
  for (const folder of path.split(delimiter))
    for (const name of ['chromium', 'chromium-browser', 'google-chrome'])
      try {
        accessSync(join(folder, name), constants.X_OK)
        return join(folder, name)
      } catch {
        // not there, or not for us
      }
  throw new Error('There is no chromium, chromium-browser or google-chrome in the PATH')
}

/** Creates databases beside the API's, gone after the run. */
function databasesOf(lab: Lab): (suffix: string) => Promise<string> {
  const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
  lab.onClose(() => sql.end({ timeout: 5 }))
  return async (suffix) => {
    const url = new URL(lab.databaseUrl)
    url.pathname += `_console_${suffix}`
    const name = url.pathname.slice(1)
    await sql`create database ${sql(name)} template template0`
    lab.onClose(() => sql`drop database if exists ${sql(name)} with (force)`)
    return url.href
  }
}

/**
 * Both services with the console as it is served, in processes of their own. Nothing is pinned: what is measured is a browser, which is
 * several processes and has both cores.
 */
async function startConsole(lab: Lab): Promise<Console> {
  const createDatabase = databasesOf(lab)
  const [apiPort, idpPort, consolePort] = [await freePort(), await freePort(), await freePort()]
  const [apiUrl, issuer, url] = [apiPort, idpPort, consolePort].map((port) => `http://localhost:${port}`) as [
    string,
    string,
    string,
  ]
  const clients = await lab.makeFolder()
  const { env } = lab
  await run(process.execPath, [join(repository, 'packages/console/build.ts'), join(clients, 'console')], { env })

  const common = {
    ...env,
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    HEALTH_PORT: '0',
    MASTER_KEYS: `bench:${randomBytes(32).toString('base64')}`,
    REDIS_URL: lab.redisUrl,
    PLATFORM_PARENT_PIPE: '1',
  }
  const idp = {
    ...common,
    PUBLIC_URL: issuer,
    PORT: String(idpPort),
    DATABASE_URL: await createDatabase('idp'),
    AUDIENCES: apiUrl,
  }
  const seed = join(await lab.makeFolder(), 'seed.json')
  await writeFile(
    seed,
    JSON.stringify({
      users: [{ ...person, givenName: 'Bench', familyName: 'Mark', emailVerified: true }],
      clients: [
        {
          id: client,
          name: 'Console',
          kind: 'public',
          redirectUris: [`${url}/callback`],
          postLogoutRedirectUris: [`${url}/`],
          grants: ['authorization_code', 'refresh_token'],
          scopes: '*',
          isFirstParty: true,
        },
      ],
    }),
  )
  await run(process.execPath, ['services/idp/src/cli.ts', 'apply', seed], { cwd: repository, env: idp })
  const databaseUrl = await createDatabase('api')
  const api = {
    ...common,
    PUBLIC_URL: apiUrl,
    PORT: String(apiPort),
    S3_PORT: '0',
    DATABASE_URL: databaseUrl,
    IDP_URL: issuer,
    OBJECTS_URL: pathToFileURL(await lab.makeFolder()).href,
    FUNCTION_EGRESS: 'none',
    CONSOLE_URL: url,
    CONSOLE_PORT: String(consolePort),
    CONSOLE_CLIENT_IDS: client,
    CLIENTS_FOLDER: clients,
  }
  const server = { core: 'any', cwd: repository } as const
  for (const each of [
    { name: 'The identity provider', script: 'services/idp/src/main.ts', env: idp, readyUrl: issuer },
    { name: 'The API', script: 'services/api/src/main.ts', arguments: ['api'], env: api, readyUrl: url },
  ])
    lab.onClose((await startServer({ ...server, ...each })).stop)

  const scopes = ['platform:organizations:write', 'network:applications:write']
  const flow = { idpUrl: issuer, clientId: client, redirectUri: `${url}/callback`, scopes }
  const { access_token: token } = await signIn(new Pages(), flow, person)
  const create = async (path: string, body: object): Promise<{ id: string; slug: string }> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const answer = await fetch(apiUrl + path, { method: 'POST', headers, body: JSON.stringify(body) })
    ok(answer.ok, `${path} answered ${answer.status}`)
    return (await answer.json()) as { id: string; slug: string }
  }
  const organization = await create('/organizations', { name: 'Acme' })
  const createApplication = (name: string) => create('/applications', { organizationId: organization.id, name })
  const [shop, builds] = [await createApplication('Shop'), await createApplication('Builds')]
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  lab.onClose(() => sql.end({ timeout: 5 }))
  await addDeployments(sql, shop.id, DEPLOYMENTS)

  const browser = await chromium.launch({ executablePath: findChromium(env['PATH'] ?? ''), chromiumSandbox: false })
  lab.onClose(() => browser.close())
  return {
    url,
    path: `/${organization.slug}/${shop.slug}`,
    sql,
    async addBuild() {
      const id = await addBuild(sql, builds.id)
      return { id, path: `/${organization.slug}/${builds.slug}/deployments/${id}` }
    },
    async openContext() {
      const context = await browser.newContext({ viewport: { width: 1_280, height: 800 } })
      const page = await context.newPage()
      await page.goto(url)
      await page.getByLabel('Email').fill(person.email)
      await page.getByLabel('Password', { exact: true }).fill(person.password)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.waitForURL((at) => at.origin === url && at.pathname !== '/callback')
      await page.close()
      return context
    },
  }
}

/** One an hour until now, with ids of their times; the last one serves. Triggers keep the counts of lists. */
async function addDeployments(sql: postgres.Sql, applicationId: string, count: number): Promise<void> {
  await sql`
    with added as (
      insert into deployments
        (id, organization_id, application_id, environment_id, seq, status, label, git, created_by, failure_reason, size_bytes,
         build_started_at, build_ended_at, output, activated_at, retired_at, created_at, updated_at)
      select
        (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' ||
          substr(md5(n::text), 4, 15))::uuid,
        a.organization_id, a.id, e.id, n, status, 'site-' || n,
        jsonb_build_object('commit', md5(n::text) || '00000000', 'branch', 'main', 'message', 'Change number ' || n,
          'isDirty', false, 'pullRequest', null, 'repository', null),
        jsonb_build_object('type', 'user', 'id', gen_random_uuid()),
        case when status = 'FAILED' then 'The build ended with exit code 1' end, 1000000 + n,
        at, at + interval '41 s',
        '{"version":1,"kind":"static","routes":[],"wildcard":[],"site":{"redirects":[],"headers":[]},"functions":{}}'::jsonb,
        case when status = 'ACTIVE' then at + interval '44 s' end,
        case when status = 'ACTIVE' and n <= ${count - UNRETIRED}::int then at + interval '9 d' end,
        at, at
      from applications a
        join environments e on e.application_id = a.id and e.slug = 'production',
        generate_series(1, ${count}::int) n,
        lateral (select now() - (${count}::int - n) * interval '1 h' as at,
          case when n % 10 = 3 then 'FAILED' else 'ACTIVE' end as status) t
      where a.id = ${applicationId}
      returning id, environment_id, seq
    )
    update environments e set current_deployment_id = added.id, current_seq = added.seq, last_seq = added.seq
    from added where e.id = added.environment_id and added.seq = ${count}::int`
  await sql`vacuum analyze deployments`
}

/** A deployment whose build goes on for ever: there is no worker. */
async function addBuild(sql: postgres.Sql, applicationId: string): Promise<string> {
  const [row] = await sql<{ id: string }[]>`
    with environment as (
      update environments set last_seq = last_seq + 1
      where application_id = ${applicationId} and slug = 'production' returning *
    )
    insert into deployments
      (id, organization_id, application_id, environment_id, seq, status, label, created_by, build_started_at, created_at, updated_at)
    select gen_random_uuid(), a.organization_id, a.id, e.id, e.last_seq, 'BUILDING', 'build-' || e.last_seq,
      jsonb_build_object('type', 'user', 'id', gen_random_uuid()), now(), now(), now()
    from applications a, environment e where a.id = ${applicationId}
    returning id`
  return row?.id ?? ''
}

/** The middle of ascending times is the median. */
const percentile = (ascending: readonly number[], share: number): number =>
  ascending[Math.floor(share * (ascending.length - 1))] ?? 0

/**
 * Runs in a page: reports when an element is there, behind the frame that shows it. A frame passes between two looks, on either side of a
 * comparison.
 */
function reportWhenShown(selector: string): void {
  const look = (): void => {
    if (document.querySelector(selector) === null) requestAnimationFrame(look)
    else setTimeout(() => (globalThis as unknown as { shown(at: number): void }).shown(Date.now()))
  }
  look()
}

/** Runs in a page: reports how long each task over 50 ms took. */
function reportLongTasks(): void {
  const { tookLong } = globalThis as unknown as { tookLong(ms: number): void }
  new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => tookLong(duration))).observe({
    type: 'longtask',
    buffered: true,
  })
}

const SHOWN_WITHIN_MS = 60_000

type Watched = Awaited<ReturnType<typeof openWatched>>

/** Opens a page of which it is known when it shows something. */
async function openWatched(context: BrowserContext, selector: string) {
  let seen: ((at: number) => void) | undefined
  let longTasks: number[] = []
  const page = await context.newPage()
  await page.exposeFunction('shown', (at: number) => seen?.(at))
  await page.addInitScript(reportWhenShown, selector)
  await page.exposeFunction('tookLong', (ms: number) => void longTasks.push(ms))
  await page.addInitScript(reportLongTasks)
  return {
    page,
    /** Tasks over 50 ms since the last time, of whichever page, and the longest. */
    async takeLongTasks(words: string): Promise<Record<string, number>> {
      await sleep(SETTLING_MS)
      const taken = longTasks
      longTasks = []
      return { [`tasks over 50 ms ${words}`]: taken.length, [`longest ms ${words}`]: Math.max(0, ...taken) }
    },
    /** Milliseconds from the start of the navigation until the element is shown, whatever lies between. */
    async timeOf(url: string): Promise<number> {
      const shown = new Promise<number>((resolve) => (seen = resolve))
      const startedAt = Date.now()
      // Where one page leads to the next, Playwright takes the first navigation for interrupted.
      await page.goto(url, { waitUntil: 'commit' }).catch(() => {})
      const at = await Promise.race([shown, sleep(SHOWN_WITHIN_MS, undefined, { ref: false })])
      if (at === undefined) throw new Error(`${page.url()} shows:\n${await page.locator('body').innerText()}`)
      return at - startedAt
    },
  }
}

const SLOWER = 4
/** What a page still does after its first content; people reload later. */
const SETTLING_MS = 300

export const consoleOpen: Suite = {
  name: 'console-open',
  work: `first content of Deployments, of ${DEPLOYMENTS}, from the start of a reload and through the provider's session, beside the console's page of who is signed out; in Chromium with a CPU slowed down ${SLOWER} ×, its cache warm`,
  async prepare(lab) {
    const { url, path, openContext } = await consoleOf(lab)
    const trial = async (name: string, address: string, selector: string): Promise<Trial> => {
      const context = await openContext()
      const { page, timeOf } = await openWatched(context, selector)
      const session = await context.newCDPSession(page)
      const slowDown = (rate: number) => session.send('Emulation.setCPUThrottlingRate', { rate })
      return {
        name,
        async measure(seconds) {
          const times: number[] = []
          await slowDown(SLOWER)
          for (const startedAt = performance.now(); performance.now() - startedAt < seconds * 1_000;) {
            times.push(await timeOf(url + address))
            await sleep(SETTLING_MS)
          }
          // A page that is slowed down is busy all the time, even if it does nothing.
          await slowDown(1)
          times.sort((a, b) => a - b)
          const took = times.reduce((sum, each) => sum + each, 0) / 1_000
          return {
            perSecond: times.length / took,
            seconds: took,
            p50Ms: percentile(times, 0.5),
            p99Ms: percentile(times, 0.99),
          }
        },
      }
    }
    return {
      ours: await trial('deployments', `${path}/deployments`, 'table.rows tbody tr'),
      peers: [{ ...(await trial('signed out', '/?state=signed-out', 'main h1')), aim: { p50RatioMax: 3 } }],
    }
  },
}

const LINES = 100_000
const FEW_LINES = 10
const ELEMENTS_MAX = 2_000
const LINES_PER_SECOND = 500
const BATCH_MS = 100
const SCROLL_STEPS = 200
const FIRST_LINE_AT = Date.UTC(2026, 0, 1)
const TAIL_APART_MS = 3_600_000

/** Adds lines of the shapes that builds write, a millisecond apart; every 10,000th is an error, and 8 of 10 name a module. */
async function addLines(
  sql: postgres.Sql,
  deploymentId: string,
  { from, count, startMs }: { from: number; count: number; startMs: number },
): Promise<void> {
  await sql`
    insert into build_logs (deployment_id, created_at, id, type, message)
    select ${deploymentId}, to_timestamp((${startMs}::bigint + n) / 1000.0), gen_random_uuid(),
      case when n % 10000 = 0 then 'ERROR' when n % 10 = 2 then 'WARN' else 'INFO' end,
      case
        when n % 10000 = 0 then 'Error: cannot resolve module ' || n
        when n % 10 = 1 then '\u001b[32m✓\u001b[39m \u001b[2msrc/pages/' || n || '.tsx\u001b[22m \u001b[1m' || n % 97 || ' kB\u001b[22m'
        when n % 10 = 2 then '\u001b[33mwarn\u001b[39m rule ' || n || ' <b>'
        else 'line ' || n || ' transforms a module and writes what it became into a chunk'
      end
    from generate_series(${from}::int, ${from + count - 1}::int) n`
}

/** The same lines in one <pre>, as text without escape sequences. Its last one has the id `end`. */
async function plainPage(sql: postgres.Sql, deploymentId: string, file: string): Promise<string> {
  const rows = await sql<{ line: string }[]>`
    select to_char(created_at, 'HH24:MI:SS') || ' ' || message as line
    from build_logs where deployment_id = ${deploymentId} order by created_at`
  const text = rows.map(({ line }) => stripVTControlCharacters(line).replaceAll('<', '&lt;')).join('\n')
  await writeFile(
    file,
    `<!doctype html><html lang="en"><meta charset="utf-8"><title>Log</title><pre>${text}<a id="end"></a></pre></html>`,
  )
  return pathToFileURL(file).href
}

/** MB of objects that are in use, of the script and of the document, after everything else was collected. */
async function heapOf(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize, embedderHeapUsedSize, backingStorageSize } = await session.send('Runtime.getHeapUsage')
  await session.detach()
  return (usedSize + embedderHeapUsedSize + backingStorageSize) / 1_000_000
}

const elementsOf = (page: Page): Promise<number> => page.evaluate(() => document.querySelectorAll('*').length)

/** Goes from the top to the end, a step each frame. Returns frames a second. */
const scrollThrough = (page: Page, selector: string): Promise<number> =>
  page.locator(selector).evaluate(async (element, steps) => {
    const startedAt = performance.now()
    for (let step = 0; step <= steps; step++) {
      element.scrollTop = (element.scrollHeight * step) / steps
      await new Promise((resolve) => requestAnimationFrame(resolve))
    }
    return (steps * 1_000) / (performance.now() - startedAt)
  }, SCROLL_STEPS)

const REGION = '[role=region][aria-label="Build log"]'
/** Is last in the log while it is followed. */
const lineSelector = (number: number): string => `${REGION} a[href="#L${number}"]`

/** Finds few lines and many, the last of which come into view, and goes back to the end. Returns milliseconds until all many are found. */
async function search(page: Page): Promise<number> {
  const field = page.getByLabel('Find in the log')
  await field.fill('cannot resolve')
  await page.getByText(/^\d+ of 10$/).waitFor()
  const startedAt = performance.now()
  await field.fill('module')
  await page.getByText(/of 80,000$/).waitFor()
  const took = performance.now() - startedAt
  await field.press('Enter')
  await field.press('Escape')
  await page.getByRole('button', { name: 'To the end', exact: true }).click()
  return took
}

export const consoleLog: Suite = {
  name: 'console-log',
  work: `a build log of ${LINES} lines in Chromium, from the start of the navigation until its last line is in view, in the console and in one <pre> of a file; requests are lines`,
  isLarge: true,
  async prepare(lab) {
    const { url, sql, addBuild, openContext } = await consoleOf(lab)
    const [many, few] = [await addBuild(), await addBuild()]
    await addLines(sql, many.id, { from: 1, count: LINES, startMs: FIRST_LINE_AT })
    await addLines(sql, few.id, { from: 1, count: FEW_LINES, startMs: FIRST_LINE_AT })
    await sql`vacuum analyze build_logs`
    const folder = await lab.makeFolder()
    const plain = {
      many: await plainPage(sql, many.id, join(folder, 'many.html')),
      few: await plainPage(sql, few.id, join(folder, 'few.html')),
    }
    const context = await openContext()
    let runs = 0

    /** Writes lines as a build does, and deletes them once they were shown. Returns milliseconds from the last one until it was. */
    async function stream(page: Page, seconds: number): Promise<number> {
      const startMs = FIRST_LINE_AT + ++runs * TAIL_APART_MS
      const count = (LINES_PER_SECOND * BATCH_MS) / 1_000
      const startedAt = performance.now()
      let last = LINES
      for (let batch = 1; batch * BATCH_MS <= seconds * 1_000; batch++) {
        await sleep(Math.max(0, startedAt + batch * BATCH_MS - performance.now()))
        await addLines(sql, many.id, { from: last + 1, count, startMs })
        last += count
      }
      const writtenAt = performance.now()
      await page.locator(lineSelector(last)).waitFor()
      const late = performance.now() - writtenAt
      await sql`delete from build_logs where deployment_id = ${many.id} and created_at > to_timestamp(${startMs}::bigint / 1000.0)`
      return late
    }

    const openFew = async (address: string, selector: string): Promise<number> => {
      const { page, timeOf } = await openWatched(context, selector)
      await timeOf(address)
      await sleep(SETTLING_MS)
      const heap = await heapOf(page)
      await page.close()
      return heap
    }
    const trial = (
      name: string,
      addresses: { many: string; few: string },
      selectors: { many: string; few: string },
      use: (watched: Watched, seconds: number) => Promise<Record<string, number>>,
    ): Trial => ({
      name,
      async measure(seconds) {
        const heapOfFew = await openFew(addresses.few, selectors.few)
        const watched = await openWatched(context, selectors.many)
        const { page, takeLongTasks } = watched
        try {
          const took = await watched.timeOf(addresses.many)
          const opening = await takeLongTasks('to show it')
          const heap = (await heapOf(page)) - heapOfFew
          const elements = await elementsOf(page)
          await takeLongTasks('to collect garbage')
          const used = await use(watched, seconds)
          return {
            perSecond: (LINES * 1_000) / took,
            seconds: took / 1_000,
            p50Ms: took,
            facts: { 'heap MB': heap, elements, ...opening, ...used },
          }
        } finally {
          await page.close()
        }
      },
    })
    return {
      ours: trial(
        'console',
        { many: url + many.path, few: url + few.path },
        { many: lineSelector(LINES), few: lineSelector(FEW_LINES) },
        async ({ page, takeLongTasks }, seconds) => {
          const framesPerSecond = await scrollThrough(page, REGION)
          const scrolled = await takeLongTasks('scrolled through')
          const searchMs = await search(page)
          const searched = await takeLongTasks('searched')
          const elements = await elementsOf(page)
          ok(elements < ELEMENTS_MAX, `The page has ${elements} elements`)
          // For 10 s in a round of 5.
          const lateMs = await stream(page, 2 * seconds)
          return {
            ...scrolled,
            'frames/s scrolled through': framesPerSecond,
            ...searched,
            'ms to find 80,000 lines': searchMs,
            ...(await takeLongTasks(`at ${LINES_PER_SECOND} lines/s`)),
            'ms until the last of them is shown': lateMs,
          }
        },
      ),
      peers: [
        {
          ...trial(
            'one <pre>',
            { many: `${plain.many}#end`, few: `${plain.few}#end` },
            { many: '#end', few: '#end' },
            async ({ page, takeLongTasks }) => {
              const framesPerSecond = await scrollThrough(page, 'html')
              return {
                ...(await takeLongTasks('scrolled through')),
                'frames/s scrolled through': framesPerSecond,
              }
            },
          ),
          aim: { throughputRatioMin: 0.7 },
        },
      ],
    }
  },
}
