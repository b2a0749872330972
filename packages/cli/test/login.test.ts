import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import { approveDevice, refuseDevice } from '@platform/testkit/approve-device'
import { Browser, type Visit } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { json, startHostileServer } from '../../sdk/test/hostile-server.ts'
import { newKey, newOwner } from '../../../services/api/test/scenario.ts'
import { scopesToAskFor } from '../src/scopes.ts'
import {
  endStoredToken,
  generationOf,
  loginInTerminal,
  signIn,
  startPlatformForSignIns,
  type StoredProfiles,
  terminalWithSignIn,
} from './sign-ins.ts'
import { type Given, newTerminal, signedInTerminal, type Terminal, wordsOf } from './terminal.ts'

let server: TestPlatform
let person: Person
beforeAll(async () => {
  server = await startPlatformForSignIns()
  person = await server.person()
})
afterAll(() => server.close())

const noRequest = () => Promise.reject(new Error('A request was made'))

const refreshTokenOf = async (terminal: Terminal) =>
  ((await terminal.readCredentials()) as StoredProfiles).profiles.default.signIn?.refreshToken

/** What the identity provider answers to a refresh token: 400 once it is revoked. */
async function refresh(token = ''): Promise<number> {
  const form = {
    grant_type: 'refresh_token',
    client_id: '0198c0de-0000-7000-8000-0000000000c1',
    refresh_token: token,
  }
  return (await fetch(`${server.idpUrl}/oauth2/token`, { method: 'POST', body: new URLSearchParams(form) })).status
}

/** The global fetch, which writes down what is asked. */
function recording() {
  const requests: { url: string; body: string; authorization: string | null }[] = []
  const record: typeof fetch = (input, init) => {
    const { url, headers } = new Request(input, init)
    const body = init?.body instanceof URLSearchParams ? init.body.toString() : ''
    requests.push({ url, body, authorization: headers.get('authorization') })
    return fetch(input, init)
  }
  return { requests, fetch: record }
}

/** The command that goes on, as the document prints it, without the name of the program. */
function nextOf({ document }: { document: { next: { command: string }[] } }): string {
  const [name, ...words] = wordsOf(document.next[0]?.command ?? '')
  expect(name).toBe('platform')
  return words.join(' ')
}

const whoami = async (terminal: Terminal, line = 'whoami'): Promise<[code: number, email?: string | null]> => {
  const { code, document } = await terminal.json(line, { fetch: noRequest })
  const { user } = (document.data ?? {}) as { user?: { email: string } }
  return user ? [code, user.email] : [code]
}

describe('where nobody can be asked', () => {
  const machines: [where: string, line: string, given: Given][] = [
    ['without a terminal', 'login', {}],
    ['in a terminal of CI', 'login --no-color', { isTerminal: true, env: { CI: '1' } }],
    ['in a terminal with --non-interactive', 'login --no-color --non-interactive', { isTerminal: true }],
  ]
  test.each(machines)(
    '%s login waits for nobody, and is finished by the command that it prints, however often that comes too early',
    async (_, line, given) => {
      const terminal = await newTerminal(server)
      const { requests, fetch: record } = recording()
      const begun = await terminal.json(line, { ...given, fetch: record })
      expect([begun.code, begun.document.status, begun.document.reason]).toEqual([8, 'action_required', 'input_needed'])
      const { url, userCode, expiresAt, ...more } = begun.document.data as Record<string, string>
      expect([url, userCode, more]).toEqual([
        `${server.idpUrl}/device?user_code=${userCode}`,
        expect.stringMatching(/^\w{4}-\w{4}$/),
        {},
      ])
      const { profiles } = (await terminal.readCredentials()) as StoredProfiles
      expect(expiresAt).toBe(new Date(profiles.default.begun?.endsAt ?? 0).toISOString())
      expect(begun.stderr).toContain(`Open ${url}\n`)
      expect(begun.stderr).toContain(`the code ${userCode}\n`)
      expect(requests.map((each) => new URL(each.url).pathname)).not.toContain('/oauth2/token')
      expect([terminal.opened, await whoami(terminal)]).toEqual([[], [3]])

      const next = nextOf(begun)
      // The second is so early that the platform tells it to slow down.
      for (let n = 0; n < 2; n++) {
        const early = await terminal.json(next, given)
        expect([early.code, early.document.data, nextOf(early)]).toEqual([8, begun.document.data, next])
      }
      await approveDevice({ completeUrl: url ?? '', userCode: userCode ?? '' }, person)
      const finished = await terminal.json(next, given)
      expect([finished.code, finished.document.data]).toMatchObject([0, { user: { email: person.email } }])
      expect(await whoami(terminal)).toEqual([0, person.email])
      expect([(await terminal.json(next, given)).code, await whoami(terminal)]).toEqual([3, [0, person.email]])
    },
  )

  test('the printed command finishes the sign-in of the profile and the platform that were named', async () => {
    const terminal = await newTerminal(server)
    const given = { env: { PLATFORM_API_URL: 'http://localhost:1' } }
    const begun = await terminal.json(`login --profile work --url ${server.apiUrl}`, given)
    const { url: completeUrl, userCode } = begun.document.data as { url: string; userCode: string }
    await approveDevice({ completeUrl, userCode }, person)
    expect((await terminal.json(nextOf(begun), given)).document.data).toMatchObject({
      profile: 'work',
      platform: server.apiUrl,
    })
  })

  test('a refused and an expired sign-in are forgotten, with a sentence', async () => {
    const terminal = await newTerminal(server)
    const begin = async () => {
      const { document } = await terminal.json('login')
      return document.data as { url: string; userCode: string }
    }
    const { url: completeUrl, userCode } = await begin()
    await refuseDevice({ completeUrl, userCode }, person)
    const ends = async () => {
      const { code, document } = await terminal.json('login --resume')
      return [code, document.message]
    }
    expect(await ends()).toEqual([3, 'The sign-in was refused in the browser'])
    expect(await ends()).toEqual([3, `No sign-in at ${server.apiUrl} has begun`])
    await begin()
    server.clock.advance(601_000)
    expect(await ends()).toEqual([3, 'The code has expired: nobody approved it in time'])
    expect(await ends()).toEqual([3, `No sign-in at ${server.apiUrl} has begun`])
  })
})

describe('in a terminal', () => {
  test('login opens the browser, prints address and code, waits for the approval, and whoami needs no request afterwards', async () => {
    const terminal = await newTerminal(server)
    let shown = { completeUrl: '', userCode: '' }
    const { code, document, stderr } = await loginInTerminal(terminal, 'login --json', (given) => {
      shown = given
      return approveDevice(given, person)
    })
    expect(stderr).toBe(
      `Open ${shown.completeUrl}\nand approve the code ${shown.userCode}\nWaiting for the approval…\n`,
    )
    expect(terminal.opened).toEqual([shown.completeUrl])
    const { expiresAt, scopes, ...data } = document.data as { expiresAt: string; scopes: string[] }
    const user = { id: person.userId, email: person.email, name: 'Ana Test' }
    expect([code, data]).toEqual([0, { profile: 'default', platform: server.apiUrl, user }])
    const { profiles } = (await terminal.readCredentials()) as StoredProfiles
    expect(expiresAt).toBe(new Date(profiles.default.signIn?.expiresAt ?? 0).toISOString())
    expect(scopes.toSorted()).toEqual(scopesToAskFor({ readOnly: false, more: [] }).toSorted())
    expect((await terminal.json('whoami', { fetch: noRequest })).document.data).toEqual({
      profile: 'default',
      platform: server.apiUrl,
      user,
      key: null,
      applicationId: null,
      scopes,
      isSignedIn: true,
    })
    expect((await terminal.json('api GET /organizations')).code).toBe(0)
  })

  test('login --no-open opens nothing, and says to people who signed in', async () => {
    const terminal = await newTerminal(server)
    const ended = await loginInTerminal(terminal, 'login --no-open', (shown) => approveDevice(shown, person))
    expect([ended.code, ended.stdout, terminal.opened]).toEqual([
      0,
      `Signed in at ${server.apiUrl} as ${person.email}\n`,
      [],
    ])
    const { stdout } = await terminal.run('whoami', { fetch: noRequest })
    expect(stdout).toBe(`${server.apiUrl} as ${person.email}, profile default\n`)
  })

  test('a login that is refused, too late or interrupted leaves everything as it was, and says so', async () => {
    const terminal = await newTerminal(server)
    const known = await terminalWithSignIn(server, await server.person())
    const before = await known.readCredentials()
    const interrupting = new AbortController()
    const ends: [decide: Parameters<typeof loginInTerminal>[2], code: number, sentence: string][] = [
      [(shown) => refuseDevice(shown, person), 3, 'The sign-in was refused in the browser'],
      [() => server.clock.advance(601_000), 3, 'The code has expired: nobody approved it in time'],
      [() => interrupting.abort('SIGINT'), 130, 'Interrupted: nobody was signed in'],
    ]
    for (const [decide, code, message] of ends) {
      const given = { signal: interrupting.signal }
      const ended = await loginInTerminal(terminal, 'login --json', decide, given)
      expect([ended.code, ended.document.message]).toEqual([code, message])
    }
    expect(await whoami(terminal)).toEqual([3])
    await loginInTerminal(known, 'login --profile other --json', (shown) => refuseDevice(shown, person))
    expect(await known.readCredentials()).toEqual(before)
  })

  test('a sign-in takes the place of another person’s, also where it is not learned whose it is', async () => {
    const terminal = await terminalWithSignIn(server, await server.person())
    const ended = await loginInTerminal(terminal, 'login --no-open --json', (shown) => approveDevice(shown, person), {
      at: { [`${server.idpUrl}/oauth2/userinfo`]: () => Response.json({}, { status: 418 }) },
    })
    expect(ended.code).toBe(1)
    const { document } = await terminal.json('whoami', { fetch: noRequest })
    expect(document.data).toMatchObject({ user: null, isSignedIn: true })
  })

  test('login revokes the earlier sign-in of the profile once there is another, and says if it cannot', async () => {
    const terminal = await terminalWithSignIn(server, person)
    const first = await refreshTokenOf(terminal)
    await loginInTerminal(terminal, 'login --no-open', (shown) => refuseDevice(shown, person))
    expect(await refreshTokenOf(terminal)).toBe(first)
    await signIn(terminal, person)
    const second = await refreshTokenOf(terminal)
    expect(await refresh(first)).toBe(400)

    const unrevoked = await loginInTerminal(terminal, 'login --no-open', (shown) => approveDevice(shown, person), {
      at: { [`${server.idpUrl}/oauth2/revoke`]: () => Response.json({}, { status: 418 }) },
    })
    expect([unrevoked.code, unrevoked.stderr]).toEqual([
      0,
      expect.stringContaining('The earlier sign-in could not be revoked'),
    ])
    expect([await refresh(second), await refresh(await refreshTokenOf(terminal))]).toEqual([200, 200])
  })

  test('Ctrl-C between two questions to the platform ends the wait for the approval', async () => {
    const terminal = await newTerminal(server)
    const terminating = new AbortController()
    await terminal.json('login')
    const { code, document } = await terminal.json('login --resume', {
      isTerminal: true,
      signal: terminating.signal,
      async fetch(input, init) {
        const answer = await fetch(input, init)
        if ((input as string).endsWith('/oauth2/token')) setImmediate(() => terminating.abort('SIGTERM'))
        return answer
      },
    })
    expect([code, document.message]).toEqual([143, 'Interrupted: nobody was signed in'])
    // It can still be finished.
    expect((await terminal.json('login --resume')).code).toBe(8)
  })
})

describe('the scopes', () => {
  /** What `login` asks for, without a sign-in. */
  async function scopesOf(line: string): Promise<string[]> {
    const { requests, fetch: record } = recording()
    const { code } = await (await newTerminal(server)).json(line, { fetch: record })
    expect(code).toBe(8)
    const asked = requests.find(({ url }) => url.endsWith('/oauth2/device_authorization'))
    return new URLSearchParams(asked?.body).get('scope')?.split(' ') ?? []
  }
  const ofApi = (scopes: string[]) => scopes.filter((scope) => scope.includes(':'))

  test('managing API keys is asked for where --scope says so, and nothing is asked for twice', async () => {
    expect((await scopesOf('login')).filter((scope) => scope.startsWith('platform:api_keys:'))).toEqual([])
    const more = ['platform:api_keys:read', 'platform:api_keys:write']
    const scopes = await scopesOf(`login --scope ${more[0]} --scope ${more[1]},network:storage:read`)
    expect(scopes).toEqual(expect.arrayContaining([...more, 'network:env_vars:write', 'offline_access']))
    expect(new Set(scopes).size).toBe(scopes.length)
  })

  test('--read-only asks to read alone, also with a further scope', async () => {
    for (const line of ['login --read-only', 'login --read-only --scope platform:api_keys:read']) {
      const scopes = await scopesOf(line)
      expect(ofApi(scopes).filter((scope) => !scope.endsWith(':read'))).toEqual([])
      expect(scopes).toEqual(expect.arrayContaining(['openid', 'offline_access', 'network:deployments:read']))
      expect(scopes.includes('platform:api_keys:read')).toBe(line.includes('api_keys'))
    }
  })

  test('--read-only refuses a scope that writes, and the platform one that it does not know; both are named', async () => {
    const terminal = await newTerminal(server)
    const writing = await terminal.json('login --read-only --scope network:env_vars:write', { fetch: noRequest })
    expect([writing.code, writing.document.message]).toEqual([2, expect.stringContaining('network:env_vars:write')])
    const unknown = await terminal.json('login --scope network:env_vars:paint')
    expect([unknown.code, unknown.document.message]).toEqual([2, expect.stringContaining('network:env_vars:paint')])
  })
})

describe('--browser', () => {
  /** Begins a sign-in, and gives the address that the browser is sent to. */
  async function begin(terminal: Terminal, given: Given = {}) {
    const { promise: url, resolve } = Promise.withResolvers<string>()
    const ended = terminal.json('login --browser', {
      isTerminal: true,
      env: { NO_COLOR: '1' },
      onStderr(text) {
        const [, found] = /^Open (\S+)\n/.exec(text) ?? []
        if (found) resolve(found)
      },
      ...given,
    })
    return { ended, url: await url }
  }

  /** Decides as the person. Returns the way back to the terminal. */
  async function decide(
    url: string,
    decision: 'approve' | 'deny',
  ): Promise<{ callback: URL; visit: () => Promise<Visit> }> {
    const browser = new Browser()
    const { idpUrl } = server
    const { email, password } = person
    let page = await browser.follow(await browser.visit(url), idpUrl)
    page = await browser.follow(await browser.submit(page, { email, password }), idpUrl)
    page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: decision }), idpUrl)
    const callback = new URL(page.location ?? '')
    return { callback, visit: () => browser.visit(callback.href) }
  }

  test('a person signs in by a redirect to this machine, which no other callback takes the place of', async () => {
    const terminal = await newTerminal(server)
    const { ended, url } = await begin(terminal)
    expect(terminal.opened).toEqual([url])
    const { callback, visit } = await decide(url, 'approve')
    expect(callback.hostname).toBe('127.0.0.1')
    const state = callback.searchParams.get('state')
    for (const other of ['//', '/callback?code=x&state=y', '/callback?code=x', '/callback', `/?code=x&state=${state}`])
      expect((await fetch(callback.origin + other)).status).toBe(other === '//' ? 400 : 404)
    const page = await visit()
    expect([page.status, page.body]).toEqual([200, expect.stringContaining('You are signed in')])
    const { code, document } = await ended
    expect([code, document.data]).toMatchObject([0, { profile: 'default', user: { email: person.email } }])
    expect(await whoami(terminal)).toEqual([0, person.email])
    await expect(fetch(callback)).rejects.toThrow('fetch failed')
  })

  test('a person refuses in the browser, or somebody presses Ctrl-C, and nobody is signed in', async () => {
    const terminal = await newTerminal(server)
    const refused = await begin(terminal)
    const { visit } = await decide(refused.url, 'deny')
    expect((await visit()).body).toContain('The sign-in was refused')
    const { code, document } = await refused.ended
    expect([code, document.message]).toEqual([3, 'The sign-in was refused in the browser'])
    const interrupting = new AbortController()
    const interrupted = await begin(terminal, { signal: interrupting.signal })
    interrupting.abort('SIGINT')
    const { code: second, document: said } = await interrupted.ended
    expect([second, said.message]).toEqual([130, 'Interrupted: nobody was signed in'])
    expect(await whoami(terminal)).toEqual([3])
  })

  test('login --browser without a terminal names the sign-in by code with the same scopes, which goes on to the end', async () => {
    const terminal = await newTerminal(server)
    const line = 'login --browser --read-only --scope platform:api_keys:read'
    const needed = await terminal.json(line, { fetch: noRequest })
    expect([needed.code, needed.document.status]).toEqual([8, 'action_required'])
    const begun = await terminal.json(nextOf(needed))
    const { url: completeUrl, userCode } = begun.document.data as { url: string; userCode: string }
    await approveDevice({ completeUrl, userCode }, person)
    const { code, document } = await terminal.json(nextOf(begun))
    const { scopes } = document.data as { scopes: string[] }
    expect([code, scopes.includes('platform:api_keys:read')]).toEqual([0, true])
    expect(scopes.filter((scope) => /:(?:write|delete|trigger)$/.test(scope))).toEqual([])
  })
})

describe('a credential of the environment', () => {
  test('a credential of the environment keeps login from signing in a person who would not be used', async () => {
    const terminal = await newTerminal(server)
    for (const env of [
      { PLATFORM_TOKEN: await person.token(everyScope) },
      { PLATFORM_CLIENT_ID: 'key', PLATFORM_CLIENT_SECRET: 'secret' },
    ]) {
      for (const line of ['login', 'login --browser', 'login --resume']) {
        const { code, document } = await terminal.json(line, { env, fetch: noRequest })
        expect([code, document.message]).toEqual([2, expect.stringContaining(`${Object.keys(env)[0]} is set`)])
      }
      expect((await terminal.json('login --profile default', { env })).code).toBe(8)
      expect((await terminal.json('logout', { env, fetch: noRequest })).code).toBe(2)
    }
  })

  test('an API key of the environment is used, and whoami names it with its application', async () => {
    const owner = await newOwner(server)
    const { id, secret } = await newKey(server, owner, ['network:applications:read'])
    const terminal = await signedInTerminal(server, person)
    const env = { PLATFORM_CLIENT_ID: id, PLATFORM_CLIENT_SECRET: secret }
    const called = await terminal.json('api GET /applications', { env })
    expect([called.code, called.document.data]).toMatchObject([0, { items: [{ id: owner.applicationId }] }])
    const { document } = await terminal.json('whoami', { env })
    expect(document.data).toMatchObject({ user: null, key: { id }, applicationId: owner.applicationId })
    expect((await terminal.run('whoami', { env })).stdout).toBe(
      `${server.apiUrl} as the API key ${id} of the application ${owner.applicationId}\n`,
    )
    for (const [name, missing] of [
      ['PLATFORM_CLIENT_ID', 'PLATFORM_CLIENT_SECRET'],
      ['PLATFORM_CLIENT_SECRET', 'PLATFORM_CLIENT_ID'],
    ] as const) {
      const half = await terminal.json('api GET /applications', { env: { [name]: env[name] }, fetch: noRequest })
      expect([half.code, half.document.message]).toEqual([2, expect.stringContaining(`${missing} is missing`)])
    }
    const wrong = await terminal.json('whoami', {
      env: { ...env, PLATFORM_CLIENT_SECRET: `svc_secret_${'x'.repeat(43)}` },
    })
    expect([wrong.code, wrong.document.hint, wrong.document.next]).toEqual([
      3,
      expect.stringContaining('PLATFORM_CLIENT_SECRET'),
      [],
    ])
    const lacking = await terminal.json('api GET /deployments', { env })
    expect([lacking.code, lacking.document.reason, lacking.document.next]).toEqual([3, 'scope_missing', []])
  })

  test('a token of the environment is good at its own platform until it ends', async () => {
    const terminal = await newTerminal(server)
    const env = { PLATFORM_TOKEN: await person.token(everyScope) }
    expect((await terminal.json('api GET /organizations', { env })).code).toBe(0)
    expect((await terminal.json('whoami', { env })).document.data).toMatchObject({ user: null, key: null })
    const stranger = await startHostileServer([json(200, {})])
    const other = await terminal.json('api GET /organizations', { env: { ...env, PLATFORM_API_URL: stranger.baseUrl } })
    expect([other.code, other.document.message]).toEqual([
      2,
      `The token is for ${server.apiUrl} and ${server.idpUrl}, not for ${stranger.baseUrl}`,
    ])
    expect(stranger.requests).toEqual([])
    server.clock.advance(301_000)
    const ended = await terminal.json('api GET /organizations', { env })
    expect([ended.code, ended.document.message, ended.document.hint, ended.document.next]).toEqual([
      3,
      expect.stringContaining('expired'),
      expect.stringContaining('PLATFORM_TOKEN'),
      [],
    ])
  })
})

describe('profiles', () => {
  test('a person has several sign-ins, of which one is in use', async () => {
    const bob = await server.person()
    const terminal = await terminalWithSignIn(server, person)
    await signIn(terminal, bob, 'login --no-open --profile work')
    expect(await whoami(terminal)).toEqual([0, bob.email])
    expect(await whoami(terminal, 'whoami --profile default')).toEqual([0, person.email])
    const { code, document } = await terminal.json('use default', { fetch: noRequest })
    expect([code, document.data]).toEqual([
      0,
      {
        profile: 'default',
        platform: server.apiUrl,
        user: { id: person.userId, email: person.email, name: 'Ana Test' },
        isSignedIn: true,
      },
    ])
    expect(await whoami(terminal)).toEqual([0, person.email])
    const unknown = await terminal.json('use wrok', { fetch: noRequest })
    expect([unknown.code, nextOf(unknown), await whoami(terminal)]).toEqual([4, 'use work --json', [0, person.email]])
    const { document: failed } = await terminal.json('whoami --profile third', { fetch: noRequest })
    expect(failed.next[0]?.command).toBe(`platform login --url ${server.apiUrl} --profile third --json`)
    expect(await whoami(terminal, 'whoami --profile work')).toEqual([0, bob.email])
    const elsewhere = 'http://localhost:1'
    const both = await terminal.json(`whoami --profile work --url ${elsewhere}`, { fetch: noRequest })
    expect([both.code, both.document.message]).toEqual([
      2,
      `The profile "work" belongs to ${server.apiUrl}, not to ${elsewhere}`,
    ])
    await terminal.json('logout --profile work')
    expect([await whoami(terminal), await whoami(terminal, 'whoami --profile work')]).toEqual([[0, person.email], [3]])
  })

  test('a profile is used at its own platform where no address is given', async () => {
    const terminal = await terminalWithSignIn(server, person)
    const env = { PLATFORM_API_URL: undefined }
    expect((await terminal.json('api GET /organizations', { env })).code).toBe(0)
  })

  test.each(['', 'localhost:4000', 'ftp://localhost:4000', 'no address'])(
    'an address that is not a platform’s is refused before any request, by its flag and its variable: "%s"',
    async (address) => {
      const terminal = await terminalWithSignIn(server, person)
      const sentence = `is not a platform's address: expected one such as http://localhost:4000, found "${address}"`
      const byFlag = await terminal.json(['whoami', '--url', address], { fetch: noRequest })
      expect([byFlag.code, byFlag.document.message]).toEqual([2, `--url ${sentence}`])
      // An empty variable counts as unset.
      const env = { PLATFORM_API_URL: address }
      const { code, document } = await terminal.json('whoami', { env, fetch: noRequest })
      expect([code, document.message]).toEqual(address === '' ? [0, undefined] : [2, `PLATFORM_API_URL ${sentence}`])
    },
  )

  test('an address with a password, a query or a fragment is refused without showing it', async () => {
    const terminal = await newTerminal(server)
    for (const address of [
      'http://ana:secret@localhost:4000',
      'http://localhost:4000?secret',
      'http://localhost:4000#secret',
    ]) {
      const { code, document, stderr } = await terminal.json(['whoami', '--url', address], { fetch: noRequest })
      expect([code, document.message]).toEqual([
        2,
        '--url has more than an address: expected one such as http://localhost:4000',
      ])
      expect(stderr).not.toContain('secret')
    }
  })

  test('a platform that calls itself otherwise than its address is refused, and both are named', async () => {
    const named = await startHostileServer([
      json(200, { resource: server.apiUrl, authorization_servers: [server.apiUrl, server.idpUrl] }),
    ])
    const { code, document } = await (await newTerminal(server)).json(`login --url ${named.baseUrl}`)
    expect([code, document.message]).toEqual([
      1,
      `The platform at ${named.baseUrl} calls itself ${server.apiUrl}: use that as baseUrl`,
    ])
  })

  test('logout revokes the sign-in, and forgets it even if the identity provider is not reached or Ctrl-C ends the wait', async () => {
    const terminal = await terminalWithSignIn(server, person)
    const revoked = await refreshTokenOf(terminal)
    const left = await terminal.json('logout')
    expect([left.code, left.document.data]).toMatchObject([0, { wasSignedIn: true, isRevoked: true }])
    expect([await refresh(revoked), await whoami(terminal)]).toEqual([400, [3]])
    expect(JSON.stringify(await terminal.readCredentials())).not.toContain(person.email)
    expect((await terminal.json('logout', { fetch: noRequest })).document.data).toMatchObject({ wasSignedIn: false })

    await signIn(terminal, person)
    const kept = await refreshTokenOf(terminal)
    const unreached = await terminal.json('logout', {
      fetch: () => Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })),
    })
    expect([unreached.code, unreached.document.data]).toMatchObject([0, { wasSignedIn: true, isRevoked: false }])
    expect(unreached.stderr).toContain('The identity provider could not be told')
    expect([await refreshTokenOf(terminal), await whoami(terminal), await refresh(kept)]).toEqual([undefined, [3], 200])

    await signIn(terminal, person)
    const terminating = new AbortController()
    const interrupted = await terminal.json('logout', {
      signal: terminating.signal,
      async fetch(input, init) {
        terminating.abort('SIGINT')
        return fetch(input, init)
      },
    })
    expect([interrupted.code, interrupted.document.message]).toEqual([
      130,
      'Interrupted: the sign-in is forgotten on this machine alone',
    ])
    expect(await refreshTokenOf(terminal)).toBeUndefined()
  })
})

describe('a stored token', () => {
  test('a stored token goes to the platform that it was made for and to no other, whatever that one says', async () => {
    const terminal = await terminalWithSignIn(server, person)
    const stranger = await startHostileServer([
      json(200, { resource: server.apiUrl, authorization_servers: [server.idpUrl], items: [] }),
    ])
    const env = { PLATFORM_API_URL: stranger.baseUrl }
    for (const line of ['api GET /organizations', 'apps ls', 'whoami', `whoami --url ${stranger.baseUrl}`]) {
      const { code, document } = await terminal.json(line, { env })
      expect([code, document.message]).toEqual([3, `Nobody is signed in at ${stranger.baseUrl}`])
    }
    for (const line of ['logout', 'login', 'login --resume', 'api GET /organizations --profile default'])
      await terminal.json(line, { env })
    expect(stranger.requests.filter(({ headers }) => headers.authorization !== undefined)).toEqual([])
    const sent = JSON.stringify(stranger.requests.map(({ path, body }) => [path, body.toString()]))
    expect(sent).toBe('[["/.well-known/oauth-protected-resource",""]]')
    expect(await whoami(terminal)).toEqual([0, person.email])
  })

  test('a stored token is renewed by the identity provider that the platform names, and given up if that is another one', async () => {
    const terminal = await terminalWithSignIn(server, person)
    const renewedFrom = await generationOf(terminal)
    await endStoredToken(terminal)
    expect((await terminal.json('api GET /organizations')).code).toBe(0)
    expect(await generationOf(terminal)).toBe(renewedFrom + 1)

    await endStoredToken(terminal)
    const asked: string[] = []
    const moved = { resource: server.apiUrl, authorization_servers: ['https://id.example.com'] }
    const { code, document } = await terminal.json('api GET /organizations', {
      fetch(input) {
        asked.push(input as string)
        return Promise.resolve(Response.json(moved))
      },
    })
    expect([code, document.message]).toEqual([
      3,
      `Signed out: ${server.apiUrl} has another identity provider now, and the sign-in was one of ${server.idpUrl}`,
    ])
    expect(asked).toEqual([`${server.apiUrl}/.well-known/oauth-protected-resource`])
    expect([await whoami(terminal), (await terminal.json('api GET /organizations')).code]).toEqual([[3], 3])
  })
})
