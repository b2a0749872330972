import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createLogger } from '@platform/runtime/logger'
import { auditEvents } from '@platform/service/audit-table'
import { readBuildInfo } from '@platform/service/build-info'
import { startHealth } from '@platform/service/health'
import { superviseParts } from '@platform/service/run-service'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { Browser, type Visit } from '@platform/testkit/browser'
import { freePort } from '@platform/testkit/free-port'
import { asc, eq } from 'drizzle-orm'
import request from 'supertest'
import { compose, prepareDatabase } from '../src/compose.ts'
import { loadConfig } from '../src/config.ts'
import type { Deps } from '../src/deps.ts'
import type { Hashing } from '../src/features/accounts/hashing.ts'
import { createUser, type NewUser } from '../src/features/accounts/accounts.ts'
import { createClient, type NewClient } from '../src/features/clients/clients.ts'
import { startHousekeeping } from '../src/roles/housekeeping.ts'
import { startIdp } from '../src/roles/idp.ts'
import { createCheapHashing } from '@platform/testing/cheap-hashing'

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
/** First-party over https, so nothing stands between signing in and a code. */
export const REDIRECT_URI = 'https://app.example.com/callback'
const VERIFIER = 'a-verifier-of-at-least-forty-three-characters-1'
export const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url')

/** An answer, as tests look at it. */
interface Answer {
  status: number
  headers: Record<string, string>
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  body: any
  text: string
}

export interface TestClient {
  id: string
  secret: string | undefined
}

export interface TestPerson {
  userId: string
  email: string
  password: string
}

type Form = Record<string, string> | string

export interface TestIdp {
  url: string
  deps: Deps
  databaseUrl: string
  /** Moves the service's clock. */
  advance(ms: number): void
  /** From now on each reading moves the clock on by so much, so that two readings never agree. */
  stepAtEachReading(ms: number): void
  /** Stops the service's clock until the returned function is called; `advance` moves it still. */
  holdClock(): () => void
  now(): Date
  client(description?: Partial<NewClient>): Promise<TestClient>
  person(description?: Partial<Pick<NewUser, 'emailVerified' | 'givenName' | 'familyName'>>): Promise<TestPerson>
  /** The letters that someone got, oldest first; what is on its way arrives first. */
  allLetters(to: { email: string }): Promise<string[]>
  /** The same without those about new browsers, which each sign-in of a test may cause. */
  letters(to: { email: string }): Promise<string[]>
  /** What the audit log says of changes to someone, as `actor action`, oldest first; sign-ins and the making of them left out. */
  changesOf(person: { userId: string }): Promise<string[]>
  /** An authorization request that is right in every way, with what is given on top; undefined takes a parameter out. */
  authorizeUrl(client: TestClient, parameters?: Record<string, string | undefined>): string
  /** Any request; a string goes as the body it is. */
  send(on: string, body?: Form | object, headers?: Record<string, string>): Promise<Answer>
  token(form: Form, headers?: Record<string, string>): Promise<Answer>
  /** Signs in on the page that a visit ended at. */
  signIn(browser: Browser, page: Visit, person: TestPerson): Promise<Visit>
  /** A browser in which the person is signed in. */
  signedIn(person: TestPerson): Promise<Browser>
  /** A code for the client, through the pages. */
  code(client: TestClient, person: TestPerson, parameters?: Record<string, string | undefined>): Promise<string>
  /** The form that redeems a code of `code`. */
  codeForm(client: TestClient, code: string): Record<string, string>
  /** Tokens for the client, through the pages. */
  tokens(client: TestClient, person: TestPerson, scope?: string): Promise<Record<string, string>>
  close(): Promise<void>
}

/**
 * Starts the real service on a free port, with a database of its own and a clock that the test moves.
 *
 * hashing: how passwords are hashed; cheaply, unless a test wants the real thing.
 */
export async function startTestIdp(
  env: Record<string, string> = {},
  {
    accountPath = '',
    logTo,
    hashing = createCheapHashing(),
  }: { accountPath?: string; logTo?: { write(line: string): void }; hashing?: Hashing } = {},
): Promise<TestIdp> {
  let offset = 0
  let heldAt: number | undefined
  let step = 0
  const now = () => new Date((heldAt ?? Date.now()) + (offset += step))
  const port = await freePort()
  const url = `http://localhost:${port}`
  const database = env.DATABASE_URL ?? (await createServiceDatabase('idp')).url
  const mailFolder = await mkdtemp(join(tmpdir(), 'platform-test-mail-'))
  const config = loadConfig({
    PUBLIC_URL: url,
    ACCOUNT_URL: `${url}${accountPath}`,
    HOST: 'localhost',
    PORT: String(port),
    HEALTH_PORT: '0',
    DATABASE_URL: database,
    MASTER_KEYS: `test:${randomBytes(32).toString('base64')}`,
    AUDIENCES: 'https://api.example.com',
    TRUSTED_PROXIES: '127.0.0.1,::1',
    MAIL_URL: pathToFileURL(mailFolder).href,
    ...env,
  })
  await prepareDatabase(config)
  const { deps, isReady, close } = await compose(config, {
    now,
    hashing,
    // So that letters and records come in the order of what caused them.
    afterAnswerAtOnce: 1,
    logger: createLogger('idp', logTo ? 'info' : 'silent', logTo),
  })
  const server = await startIdp(deps, { host: config.HOST, port })
  const build = readBuildInfo('idp', config.BUILD_COMMIT)
  const health = await startHealth(config.HEALTH_HOST, config.HEALTH_PORT, build, deps.logger)
  const stopParts = superviseParts([server, startHousekeeping(deps, config.AUDIT_RETENTION_DAYS)], health, isReady)

  const send: TestIdp['send'] = async (on, body, headers = {}) => {
    const [method = 'GET', path = '/'] = on.split(' ')
    const agent = request(url)
    const ask = agent[method.toLowerCase() as 'get'].bind(agent)
    const sent = ask(path)
      .redirects(0)
      .ok(() => true)
      .set(headers)
    const answer = await (body === undefined ? sent : sent.send(body))
    return { status: answer.status, headers: answer.headers, body: answer.body as unknown, text: answer.text }
  }
  const idp: TestIdp = {
    url,
    deps,
    databaseUrl: database,
    advance: (ms) => void (offset += ms),
    stepAtEachReading: (ms) => void (step = ms),
    holdClock() {
      const before = heldAt
      heldAt ??= Date.now()
      return () => void (heldAt = before)
    },
    now,
    send,
    async client(description = {}) {
      const { client, secret } = await createClient(deps, {
        name: 'Test client',
        kind: 'public',
        redirectUris: [REDIRECT_URI],
        grants: ['authorization_code', 'refresh_token', DEVICE_GRANT],
        scopes: '*',
        isFirstParty: true,
        ...description,
      })
      return { id: client.id, secret }
    },
    async person(description = {}) {
      const email = `${randomBytes(6).toString('hex')}@example.com`
      const password = randomBytes(12).toString('base64url')
      const user = await createUser(deps, { email, password, givenName: 'Ana', familyName: 'Silva', ...description })
      return { userId: user.id, email, password }
    },
    async allLetters({ email }) {
      await deps.afterAnswer.settled()
      const names = (await readdir(mailFolder)).toSorted()
      const all = await Promise.all(names.map((name) => readFile(join(mailFolder, name), 'utf8')))
      return all.filter((letter) => letter.includes(`\r\nTo: ${email}\r\n`))
    },
    letters: async (to) =>
      (await idp.allLetters(to)).filter((letter) => !letter.includes('\r\nSubject: A new browser signed in')),
    async changesOf({ userId }) {
      await deps.afterAnswer.settled()
      const events = await deps.db
        .select({ actor: auditEvents.actor, action: auditEvents.action })
        .from(auditEvents)
        .where(eq(auditEvents.subject, `user:${userId}`))
        .orderBy(asc(auditEvents.id))
      return events
        .filter(({ action }) => !/^user\.(?:created|signed_in|second_factor_shown|\w+_refused)$/.test(action))
        .map(({ actor, action }) => `${actor} ${action}`)
    },
    authorizeUrl(client, parameters = {}) {
      const all: Record<string, string | undefined> = {
        client_id: client.id,
        redirect_uri: REDIRECT_URI,
        response_type: 'code',
        scope: 'openid',
        state: 'a state & more',
        code_challenge: CHALLENGE,
        code_challenge_method: 'S256',
        ...parameters,
      }
      const entries = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)
      return `${url}/oauth2/authorize?${new URLSearchParams(entries).toString()}`
    },
    token: (form, headers = {}) =>
      send('POST /oauth2/token', typeof form === 'string' ? form : new URLSearchParams(form).toString(), {
        'content-type': 'application/x-www-form-urlencoded',
        ...headers,
      }),
    signIn: (browser, page, { email, password }) => browser.submit(page, { email, password }),
    async signedIn(person) {
      const browser = new Browser()
      const done = await idp.signIn(browser, await browser.visit(`${url}/sign-in`), person)
      if (done.status !== 303) throw new Error(`Sign-in answered ${done.status}`)
      return browser
    },
    async code(client, person, parameters = {}) {
      const browser = await idp.signedIn(person)
      let visit = await browser.follow(await browser.visit(idp.authorizeUrl(client, parameters)), url)
      if (visit.body.includes('name="decision"'))
        visit = await browser.follow(await browser.submit(visit, {}, { name: 'decision', value: 'approve' }), url)
      const code = visit.location === undefined ? null : new URL(visit.location).searchParams.get('code')
      if (code === null) throw new Error(`No code: ${visit.status} ${visit.location} ${visit.body}`)
      return code
    },
    codeForm: (client, code) => ({
      grant_type: 'authorization_code',
      client_id: client.id,
      ...(client.secret === undefined ? {} : { client_secret: client.secret }),
      code,
      redirect_uri: REDIRECT_URI,
      code_verifier: VERIFIER,
    }),
    async tokens(client, person, scope = 'openid profile email offline_access') {
      const answer = await idp.token(idp.codeForm(client, await idp.code(client, person, { scope })))
      if (answer.status !== 200) throw new Error(`No tokens: ${answer.status} ${answer.text}`)
      return answer.body as Record<string, string>
    },
    async close() {
      await stopParts(0)
      await close()
      await rm(mailFolder, { recursive: true, force: true })
    },
  }
  return idp
}

/** The claims of a JWT, unverified. */
export function claimsOf(token: string | undefined): Record<string, unknown> {
  return JSON.parse(Buffer.from(token?.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>
}

/** The header of a JWT. */
export function headerOf(token: string | undefined): Record<string, unknown> {
  return JSON.parse(Buffer.from(token?.split('.')[0] ?? '', 'base64url').toString()) as Record<string, unknown>
}

export const basic = (id: string, secret: string): string =>
  `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`

/** The only link of a letter. */
export function linkIn(letter: string | undefined): string {
  const [link, another] = letter?.match(/https?:\/\/\S+/g) ?? []
  if (link === undefined || another !== undefined) throw new Error(`Not one link: ${letter}`)
  return link
}
