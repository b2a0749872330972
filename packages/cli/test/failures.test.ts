import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { env } from 'node:process'
import { readFile } from 'node:fs/promises'
import { freePort } from '@platform/testkit/free-port'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { mainPath, startProgram } from './cli-process.ts'
import { newTerminal, signedInTerminal, type Terminal } from './terminal.ts'

let server: TestPlatform
let owner: Owner
let terminal: Terminal
beforeAll(async () => {
  server = await startPlatform({ hasWorker: true })
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
})
afterAll(() => server.close())

/** A server that accepts connections and says nothing. Returns its address. */
async function startSilentServer(): Promise<string> {
  const silent = createServer(() => {})
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  return `http://127.0.0.1:${(silent.address() as { port: number }).port}`
}

const token = (baseUrl: string) => {
  const claims = Buffer.from(JSON.stringify({ aud: baseUrl, sub: 'x' })).toString('base64url')
  return `e30.${claims}.e30`
}

describe('a platform that is not reached', () => {
  test('a platform where nothing listens is 7 and named', async () => {
    const baseUrl = `http://127.0.0.1:${await freePort()}`
    const env = { PLATFORM_API_URL: baseUrl, PLATFORM_TOKEN: token(baseUrl) }
    const { code, document } = await terminal.json('api GET /organizations', { env })
    expect([code, document.reason, document.message]).toEqual([
      7,
      'unreachable',
      `${baseUrl} cannot be reached: nothing listens there`,
    ])
    const login = await (await newTerminal(server)).json('login', { env: { PLATFORM_API_URL: baseUrl } })
    expect([login.code, login.document.message]).toEqual([7, `${baseUrl} cannot be reached: nothing listens there`])
  })

  test('a platform that does not answer is 7 and named', async () => {
    const baseUrl = await startSilentServer()
    const env = { PLATFORM_API_URL: baseUrl, PLATFORM_TOKEN: token(baseUrl) }
    const { code, document } = await terminal.json('api GET /organizations', { env, firstAnswerMs: 100 })
    expect([code, document.reason, document.message]).toEqual([
      7,
      'unreachable',
      expect.stringContaining(`${baseUrl} has not answered`),
    ])
    const login = await (
      await newTerminal(server)
    ).json('login', { env: { PLATFORM_API_URL: baseUrl }, firstAnswerMs: 100 })
    expect([login.code, login.document.message]).toEqual([7, expect.stringContaining(baseUrl)])
  })

  test.runIf(env['DRILL'])('within five seconds, whether nothing listens or nobody answers', async () => {
    for (const baseUrl of [`http://127.0.0.1:${await freePort()}`, await startSilentServer()]) {
      const more = { PLATFORM_API_URL: baseUrl, PLATFORM_TOKEN: token(baseUrl) }
      const line = ['timeout', '5', process.execPath, mainPath, 'api', 'GET', '/organizations']
      const { code, stderr } = await startProgram(terminal, line, { env: more }).end()
      expect([code, stderr]).toEqual([7, expect.stringContaining(baseUrl)])
    }
  })

  test('a platform that answers 503 to every repetition is 7 and named', async () => {
    const { code, document } = await terminal.json('api GET /organizations', {
      fetch: () =>
        Promise.resolve(Response.json({ error: 'Not now' }, { status: 503, headers: { 'x-request-id': 'r-1' } })),
    })
    expect([code, document]).toEqual([
      7,
      expect.objectContaining({ reason: 'unreachable', message: 'Not now', requestId: 'r-1' }),
    ])
  })
})

test('a model that takes longer than a first answer may is waited for', async () => {
  const organization = { id: owner.organizationId, slug: 'acme', name: 'Acme' }
  const { code, document } = await terminal.json('api POST /ai/v1/chat/completions --org acme --body {}', {
    // Ends before the model answers, and after all that is answered at once.
    firstAnswerMs: 0,
    async fetch(input) {
      if (!(input as string).endsWith('/chat/completions')) return Response.json({ items: [organization], total: 1 })
      await once(AbortSignal.timeout(50), 'abort')
      return Response.json({ id: 'chatcmpl-1' })
    },
  })
  expect([code, document.data]).toEqual([0, { id: 'chatcmpl-1' }])
})

test('a rate limit is told, and waited for where somebody watches or it is short', async () => {
  const limited = (seconds: number) => {
    let isFirst = true
    return (): Promise<Response> => {
      const answer = isFirst
        ? Response.json({ error: 'Slow down' }, { status: 429, headers: { 'retry-after': String(seconds) } })
        : Response.json({ items: [], total: 0 })
      isFirst = false
      return Promise.resolve(answer)
    }
  }
  const short = await terminal.json('orgs ls', { fetch: limited(1) })
  expect([short.code, short.stderr]).toEqual([0, 'Too many requests: going on in 1 s\n'])
  const long = await terminal.json('orgs ls', { fetch: limited(60) })
  expect([long.code, long.document.data]).toEqual([9, { status: 429, retryAfterSeconds: 60 }])
})

describe('exit codes', () => {
  const answers: [
    title: string,
    status: number,
    body: object,
    headers: Record<string, string>,
    code: number,
    reason: string,
  ][] = [
    ['a name that is taken', 409, { error: 'Taken' }, {}, 5, 'conflict'],
    ['something that is missing', 404, { error: 'Organization not found' }, {}, 4, 'not_found'],
    ['an application out of an API key’s reach', 403, { error: 'Access denied' }, {}, 4, 'not_found'],
    ['a role that is missing', 403, { error: 'Members cannot do this' }, {}, 1, 'forbidden'],
    [
      'a scope that is missing',
      403,
      { error: 'The token lacks the scope network:env_vars:read' },
      {},
      3,
      'scope_missing',
    ],
    [
      'a sign-in that is too old',
      403,
      { error: 'Sign in again' },
      { 'www-authenticate': 'Bearer error="insufficient_user_authentication", max_age="300"' },
      3,
      'step_up_needed',
    ],
    ['a token that ended', 401, { error: 'Invalid token' }, {}, 3, 'sign_in_needed'],
    ['a billing cap', 402, { error: 'The cap is reached' }, {}, 9, 'limit_reached'],
    ['a quota', 429, { error: 'Quota exceeded' }, {}, 9, 'limit_reached'],
    ['a rate limit that outlasts the call', 429, { error: 'Slow down' }, { 'retry-after': '600' }, 9, 'limit_reached'],
    ['an archive that is too large', 413, { error: 'Too large' }, {}, 9, 'limit_reached'],
    [
      'a value that the platform refuses',
      422,
      { error: 'Invalid', errors: [{ property: '/name', message: 'Too long' }] },
      {},
      2,
      'invalid',
    ],
    ['a failure of the platform', 500, { error: 'Internal error' }, {}, 7, 'unreachable'],
  ]
  test.each(answers)('%s has its exit code and reason', async (_, status, body, headers, code, reason) => {
    // A 401 ends the sign-in.
    const own = await signedInTerminal(server, owner.person, ['platform:organizations:read'])
    const ended = await own.json('api PATCH /organizations/x/env-vars/y --body {}', {
      fetch: () => Promise.resolve(Response.json(body, { status, headers })),
    })
    expect([ended.code, ended.document.reason, ended.document.data?.status]).toEqual([code, reason, status])
    if (status === 422) expect(ended.document.message).toContain('/name: Too long')
    if (reason === 'scope_missing')
      expect(ended.document.next).toEqual([
        { command: 'platform login --scope network:env_vars:read --json', when: expect.any(String) },
      ])
  })

  test('Ctrl-C is 130 and SIGTERM 143', async () => {
    for (const [signal, code] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
    ] as const) {
      const leaving = new AbortController()
      const ended = await terminal.json('api GET /organizations', {
        signal: leaving.signal,
        fetch: () => {
          leaving.abort(signal)
          return new Promise(() => {})
        },
      })
      expect([ended.code, ended.document.status]).toEqual([code, 'error'])
    }
  })
})

test('no command prints a secret, with --verbose and where it fails', async () => {
  const canary = `canary${randomBytes(8).toString('hex')}`
  const key = await newKey(server, owner, [
    'network:deployments:trigger',
    'network:deployments:read',
    'network:env_vars:read',
    'network:applications:read',
  ])
  const site = await terminal.folder('canaries', {
    'index.html': 'hello',
    '.env': `PASSWORD=${canary}`,
    '.platform/project.json': JSON.stringify({
      organizationId: owner.organizationId,
      applicationId: owner.applicationId,
    }),
  })
  const kept = (await terminal.readCredentials()) as { profiles: { default: { signIn: { accessToken: string } } } }
  const secrets = [canary, key.secret, kept.profiles.default.signIn.accessToken]
  const seen: string[] = []
  const signed: string[] = []
  const watching: typeof fetch = async (input, init) => {
    const { search } = new URL(input as string)
    if (search.includes('signature')) signed.push(search)
    const answer = await fetch(input, init)
    const { authorization } = (init?.headers ?? {}) as Record<string, string>
    if (authorization) secrets.push(authorization.replace('Bearer ', ''))
    return answer
  }
  const asKey = { PLATFORM_CLIENT_ID: key.id, PLATFORM_CLIENT_SECRET: key.secret }
  const lines: [line: string, more?: object][] = [
    ['whoami'],
    ['deploy'],
    ['deploy', { env: asKey }],
    ['deployments', { env: asKey }],
    ['env set PASSWORD --sensitive', { stdin: canary }],
    [
      'env set OTHER --sensitive',
      { stdin: canary, fetch: () => Promise.resolve(Response.json({ error: 'Not now' }, { status: 500 })) },
    ],
    ['env ls'],
    ['env pull .pulled'],
    ['logs'],
    ['logs --requests'],
    ['logs --build'],
    ['api GET /organizations'],
    ['api GET /applications', { env: asKey }],
    ['api GET /applications', { env: { ...asKey, PLATFORM_CLIENT_SECRET: `${key.secret}x` } }],
    ['login --resume'],
    ['logout'],
  ]
  for (const [line, more] of lines)
    for (const json of [[], ['--json']]) {
      const ended = await terminal.run([...line.split(' '), '--verbose', ...json], {
        cwd: site,
        fetch: watching,
        ...more,
      })
      seen.push(ended.stdout, ended.stderr)
    }
  const all = seen.join('\n')
  expect(all).toContain('POST /deployments 201')
  expect(signed.length).toBeGreaterThan(0)
  for (const secret of [...secrets, ...signed]) expect(all).not.toContain(secret)
  expect(await readFile(`${site}/.pulled`, 'utf8')).not.toContain(canary)
})
