import { randomBytes, randomUUID } from 'node:crypto'
import { Browser } from '@platform/testkit/browser'
import { signIn } from '@platform/testing/oauth-flow'
import { expect, onTestFinished } from 'vitest'
import { holdAnswer, holdBody } from './held-requests.ts'
import { type S3Answer, type S3Request, sendRaw, sign, storageScopes } from './s3.ts'
import type { Role, UpgradeAddresses } from './upgrade-processes.ts'

const REQUESTS_A_SECOND = 30
/** Two of each kind. Where this many wait, the machine has too much to do, and more would only fail by their number. */
const UNDER_WAY_MAX = 14
/** Refreshes of one grant wait for each other. */
const GRANTS = 6
/** The smaller one is kept in the database, the larger one in the store of objects. */
const OBJECT_BYTES = [500, 100_000] as const
/** More than kernel and nginx hold of it while nobody reads. */
const LARGE_BYTES = 24 * 1_024 ** 2
const REDIRECT_URI = 'http://localhost:3000/callback'
const SCOPES = [
  'openid',
  'offline_access',
  'platform:organizations:read',
  'platform:organizations:write',
  'platform:api_keys:write',
  'network:applications:write',
  'network:env_vars:read',
  'network:env_vars:write',
  ...storageScopes,
]

/** A person and a client as `cli.ts apply` of the identity provider makes them. */
export function newPerson() {
  const person = { email: 'ana@example.com', password: randomBytes(12).toString('base64url') }
  const clientId = randomUUID()
  const client = {
    id: clientId,
    name: 'Test client',
    kind: 'public',
    redirectUris: [REDIRECT_URI],
    grants: ['authorization_code', 'refresh_token'],
    scopes: '*',
    isFirstParty: true,
  }
  return { person, clientId, wanted: { users: [{ ...person, emailVerified: true }], clients: [client] } }
}

/** Limits count by address; each request comes from one of its own. */
const newAddress = (): string => `198.18.${[...randomBytes(2)].join('.')}`

/**
 * Calls `send` up to 30 times a second with numbers from `first` on, until it is stopped, and at the latest when the test ends.
 * What was not sent in its turn is not made up for.
 */
function keepPace(send: (n: number) => Promise<void>, first: number) {
  const underWay = new Set<Promise<void>>()
  const waiting: { count: number; go: () => void }[] = []
  let sent = 0
  const pacing = setInterval(() => {
    if (underWay.size < UNDER_WAY_MAX) {
      const done = send(first + sent++).finally(() => underWay.delete(done))
      underWay.add(done)
    }
    while (waiting[0] && waiting[0].count <= sent) waiting.shift()?.go()
  }, 1_000 / REQUESTS_A_SECOND)
  onTestFinished(() => clearInterval(pacing))
  return {
    /** Until so many were sent; to be asked for in ascending order. */
    untilSent: (count: number) => new Promise<void>((go) => void waiting.push({ count, go })),
    /** Returns how many were sent, once all have settled. */
    async stop(): Promise<number> {
      clearInterval(pacing)
      await Promise.all(underWay)
      return sent
    },
  }
}

/** Signs in, creates an application, a bucket and a key, and then sends requests of all kinds in turn. */
export async function openLoad(
  { ports, idpUrl, apiUrl, objectsDomain }: UpgradeAddresses,
  { person, clientId }: Pick<ReturnType<typeof newPerson>, 'person' | 'clientId'>,
) {
  /** As one that comes from an address of its own to this site. */
  const arriving = (site: keyof typeof ports, { headers, ...more }: S3Request): S3Request => ({
    ...more,
    headers: {
      host: new URL(site === 'idp' ? idpUrl : apiUrl).host,
      ...headers,
      // A connection that is kept could be closed, while nginx reads its configuration again, under a request on its way.
      connection: 'close',
      'x-forwarded-for': newAddress(),
    },
  })
  const send = (site: keyof typeof ports, options: S3Request) =>
    sendRaw({ host: `127.0.0.1:${ports[site]}` }, arriving(site, options))
  let accessToken = ''
  const sendJson = (on: string, body?: object) => {
    const [method = 'GET', path = '/'] = on.split(' ')
    const headers = { authorization: `Bearer ${accessToken}` }
    if (!body) return send('api', { method, path, headers })
    return send('api', {
      method,
      path,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  }

  const browser = new Browser({ 'x-forwarded-for': newAddress() })
  const flow = { idpUrl, clientId, redirectUri: REDIRECT_URI, scopes: SCOPES }
  const grants: { refreshToken: string; last: Promise<unknown> }[] = []
  const keep = (tokens: { access_token: string; refresh_token?: string }): string => {
    accessToken = tokens.access_token
    if (tokens.refresh_token === undefined) throw new Error('The token endpoint answered no refresh token')
    return tokens.refresh_token
  }
  for (let n = 0; n < GRANTS; n++)
    grants.push({ refreshToken: keep(await signIn(browser, flow, person)), last: Promise.resolve() })

  async function create<T>(on: string, body: object): Promise<T> {
    const answer = await sendJson(on, body)
    expect(answer.status, answer.text).toBe(201)
    return JSON.parse(answer.text) as T
  }
  const organization = await create<{ id: string }>('POST /organizations', { name: 'Rolling' })
  const application = await create<{ id: string }>('POST /applications', {
    organizationId: organization.id,
    name: 'Rolling',
  })
  const bucket = await create<{ name: string; slug: string }>(
    `POST /applications/${application.id}/environments/production/storage/buckets`,
    { name: 'rolling', visibility: 'public' },
  )
  const key = await create<{ id: string; secret: string }>('POST /api-keys', {
    name: 'rolling',
    applicationId: application.id,
    scopes: storageScopes,
  })

  const objects = new Map<string, Buffer>()
  const variables = new Map<string, string>()
  const signed = (options: S3Request): S3Request => sign({ host: new URL(apiUrl).host }, options, { key })
  const objectPath = (name: string): string => `/s3/${bucket.name}/${name}`
  async function store(name: string, body: Buffer): Promise<S3Answer> {
    const answer = await send('api', signed({ method: 'PUT', path: objectPath(name), body }))
    if (answer.status === 200) objects.set(name, body)
    return answer
  }
  const refreshForm = (grant: { refreshToken: string }): S3Request => ({
    method: 'POST',
    path: '/oauth2/token',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      client_id: clientId,
      refresh_token: grant.refreshToken,
    }).toString(),
  })
  const large = randomBytes(LARGE_BYTES)
  expect((await send('api', signed({ method: 'PUT', path: objectPath('large'), body: large }))).status).toBe(200)
  for (const [n, bytes] of OBJECT_BYTES.entries())
    expect((await store(`first-${n}`, randomBytes(bytes))).status).toBe(200)

  /** Throws unless the answer has this status, and this body if one is given. */
  function check(
    { status, text, body }: Pick<S3Answer, 'status' | 'text' | 'body'>,
    right: number,
    content?: Buffer,
  ): void {
    if (status !== right) throw new Error(`${status} ${text.slice(0, 500)}`)
    if (content && !body.equals(content)) throw new Error(`${body.length} bytes and not the ${content.length} stored`)
  }
  const anyObject = (n: number): [string, Buffer] => [...objects][(n * 7) % objects.size] ?? ['', Buffer.of()]
  const visit = (name: string): S3Request => ({
    path: `/${name}`,
    headers: { host: `${bucket.slug}.${objectsDomain}` },
  })
  const ofApplication = `/applications/${application.id}`

  /** One of each in turn. */
  const kinds: Record<string, (n: number) => Promise<void>> = {
    async putObject(n) {
      const body = randomBytes(OBJECT_BYTES[Math.floor(n / 7) % 2] ?? 0)
      check(await store(`object-${n}`, body), 200)
    },
    async getObject(n) {
      const [name, content] = anyObject(n)
      check(await send('api', signed({ path: objectPath(name) })), 200, content)
    },
    async createVariable(n) {
      check(await sendJson(`POST ${ofApplication}/env-vars`, { key: `K_${n}`, value: `v ${n}` }), 201)
      variables.set(`K_${n}`, `v ${n}`)
    },
    async listVariables() {
      check(await sendJson(`GET ${ofApplication}/env-vars?limit=10`), 200)
    },
    async pullVariables() {
      check(await sendJson(`GET ${ofApplication}/env-vars/pull?environment=production`), 200)
    },
    async refresh(n) {
      const grant = grants[n % GRANTS]
      if (!grant) return
      const refresh = async (): Promise<void> => {
        const answer = await send('idp', refreshForm(grant))
        check(answer, 200)
        grant.refreshToken = keep(JSON.parse(answer.text) as { access_token: string; refresh_token: string })
      }
      const refreshed = grant.last.then(refresh)
      grant.last = refreshed.catch(() => {})
      await refreshed
    },
    async visitEdge(n) {
      const [name, content] = anyObject(n)
      check(await send('edge', visit(name)), 200, content)
    },
  }

  let held = 0
  /** Requests before this start: what they create has their numbers. */
  let sentBefore = 0
  return {
    /**
     * Begins a request of the kind that the role serves; while the worker is replaced, one of the API. Returns what finishes it,
     * and throws unless it ends as it should.
     */
    async hold(role: Role): Promise<() => Promise<void>> {
      if (role === 'edge') {
        const finish = await holdAnswer(ports.edge, arriving('edge', visit('large')))
        return async () => check(await finish(), 200, large)
      }
      if (role === 'idp') {
        const refreshToken = keep(await signIn(browser, flow, person))
        const finish = holdBody(ports.idp, arriving('idp', refreshForm({ refreshToken })))
        return async () => check(await finish(), 200)
      }
      const name = `held-${held++}`
      const body = randomBytes(OBJECT_BYTES[1])
      const put = signed({ method: 'PUT', path: objectPath(name), body })
      const finish = holdBody(ports.api, arriving('api', put))
      return async () => {
        check(await finish(), 200)
        objects.set(name, body)
      }
    },

    /** Sends requests until it is stopped. */
    start() {
      const names = Object.keys(kinds)
      const failures: string[] = []
      const pace = keepPace(async (n) => {
        const name = names[n % names.length] ?? ''
        try {
          await kinds[name]?.(n)
        } catch (error) {
          failures.push(`request ${n}, ${name}: ${(error as Error).message}`)
        }
      }, sentBefore)
      return {
        failures,
        untilSent: pace.untilSent,
        async stop() {
          sentBefore += await pace.stop()
        },
      }
    },

    /** Throws unless all that was acknowledged can be read. */
    async checkStored() {
      const pulled = await sendJson(`GET ${ofApplication}/env-vars/pull?environment=production`)
      const { items } = JSON.parse(pulled.text) as { items: { key: string; value: string }[] }
      expect(new Map(items.map(({ key, value }) => [key, value]))).toEqual(variables)
      const listed = await send('api', signed({ path: `/s3/${bucket.name}?list-type=2` }))
      const found = [...listed.text.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, name]) => name)
      expect(new Set(found)).toEqual(new Set([...objects.keys(), 'large']))
    },
  }
}
