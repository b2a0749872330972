// engines: postgres
import { createHash } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import postgres from 'postgres'
import { deploymentOf, newFunction, type TestFunction } from '../../../../test/deployments.ts'
import { newKey, newOwner, type Owner, tokenOf } from '../../../../test/scenario.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'
import { type DeploymentStatus, deployments } from '../../deploy/deployments/table.ts'

const ON = 'POST /sticky-sessions/urls'
const SCOPE = 'network:sticky_sessions:write'

let platform: TestPlatform
let ana: Owner
let own: TestFunction
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
  own = await newFunction(platform, ana)
})
afterAll(() => platform.close())

const cart = { key: 'cart-4711', endpoint: '/carts/4711' }
const mint = (body: object = {}, token: string | null = own.token) => platform.call(token, ON, { ...cart, ...body })
/** The URL at which a deployment answers. */
async function siteOf(deploymentId: string): Promise<string> {
  const { label } = await deploymentOf(platform, deploymentId)
  return `${platform.api.appsUrl.protocol}//${label}.${platform.api.appsUrl.host}`
}
/** Splits off the token, and reads it for the remaining address. */
function read(url: string, method = 'GET', deploymentId = own.deploymentId) {
  const [, address = '', separator = '', token = ''] = /^(.*)([?&])__sticky=([\w.-]+)$/.exec(url) ?? expect.fail(url)
  const path = new URL(url).pathname
  const reading = platform.api.stickyTokens.read(token, { deploymentId, path, method, now: platform.api.now() })
  return { address, separator, reading }
}
const hashOf = (deploymentId: string, key: string) =>
  createHash('sha256').update(`${deploymentId}\n${key}`).digest().subarray(0, 16)
const setDeployment = (id: string, values: Partial<typeof deployments.$inferInsert>) =>
  platform.api.db.update(deployments).set(values).where(eq(deployments.id, id))
const pinnedUntil = async ({ deploymentId }: TestFunction) =>
  (await deploymentOf(platform, deploymentId)).pinnedUntil?.getTime() ?? 0

describe('a sticky URL', () => {
  test('is one of its own deployment, good for four hours unless said (A §4)', async () => {
    const before = platform.api.now().getTime()
    const answer = await mint()
    const after = platform.api.now().getTime()
    expect(answer).toMatchObject({ status: 200, body: { url: expect.any(String), expiresAt: expect.any(String) } })
    const { address, separator, reading } = read(answer.body.url as string)
    expect([address, separator]).toEqual([`${await siteOf(own.deploymentId)}/carts/4711`, '?'])
    const expiresAt = new Date(answer.body.expiresAt as string)
    expect(reading).toEqual({ isValid: true, pin: { keyHash: hashOf(own.deploymentId, cart.key), expiresAt } })
    expect(expiresAt.getTime() % 1_000).toBe(0)
    expect(expiresAt.getTime()).toBeGreaterThanOrEqual(before + 14_400_000)
    expect(expiresAt.getTime()).toBeLessThan(after + 14_401_000)
    for (const method of ['POST', 'DELETE', 'PROPFIND'])
      expect(read(answer.body.url as string, method).reading.isValid).toBe(true)
    expect(read(answer.body.url as string, 'GET', newId()).reading.isValid).toBe(false)
  })

  test.each([60, 86_400])('may be good for %s s', async (expiresInSeconds) => {
    const before = platform.api.now().getTime()
    const { body } = await mint({ expiresInSeconds })
    const lasts = (new Date(body.expiresAt as string).getTime() - before) / 1_000
    expect(lasts).toBeGreaterThanOrEqual(expiresInSeconds)
    expect(lasts).toBeLessThan(expiresInSeconds + 10)
  })

  test('may be confined to a method (D87)', async () => {
    const { body } = await mint({ method: 'GET' })
    const url = body.url as string
    expect(['GET', 'HEAD', 'OPTIONS'].map((method) => read(url, method).reading.isValid)).toEqual([true, true, true])
    expect(read(url, 'POST').reading).toEqual({ isValid: false, allowed: 'GET, HEAD, OPTIONS' })
  })

  test('of a Function of another deployment is of that one, and another slot', async () => {
    const preview = await newFunction(platform, ana, 'preview')
    const { body } = await mint({}, preview.token)
    expect(read(body.url as string).reading).toEqual({ isValid: false })
    const { address, reading } = read(body.url as string, 'GET', preview.deploymentId)
    expect(address).toBe(`${await siteOf(preview.deploymentId)}/carts/4711`)
    expect(reading).toMatchObject({ pin: { keyHash: hashOf(preview.deploymentId, cart.key) } })
  })

  test.each([
    ['/', '/', '?'],
    ['/a?tab=items', '/a?tab=items', '&'],
    ['/a?', '/a', '?'],
    ['/a?x=1&', '/a?x=1&', '&'],
    ['/a?b?c', '/a?b?c', '&'],
    ['/a?next=https://b.test/%2F+%20', '/a?next=https://b.test/%2F+%20', '&'],
    ['/a?sticky=1&x__sticky=2&_sticky', '/a?sticky=1&x__sticky=2&_sticky', '&'],
    ['/a/./b/../c', '/a/c', '?'],
    ['/../../a', '/a', '?'],
    ['/a/%2e%2E/b', '/b', '?'],
    ['/a//b', '/a//b', '?'],
    ['/für/🐱?q=ü', '/f%C3%BCr/%F0%9F%90%B1?q=%C3%BC', '&'],
    ['/f%c3%bcr%2F%', '/f%c3%bcr%2F%', '?'],
    ['/a b', '/a%20b', '?'],
    ['/a ', '/a%20', '?'],
    ['/a?b ', '/a?b%20', '&'],
    ['/user@host:80/', '/user@host:80/', '?'],
    ['/https://evil.test/', '/https://evil.test/', '?'],
    [`/${'x'.repeat(2_047)}`, `/${'x'.repeat(2_047)}`, '?'],
    [`/a?${'x'.repeat(2_045)}`, `/a?${'x'.repeat(2_045)}`, '&'],
  ])('to %j leads to %j', async (endpoint, sent, separator) => {
    const { status, body } = await mint({ endpoint })
    expect(status).toBe(200)
    const url = body.url as string
    const made = read(url)
    expect([made.address, made.separator]).toEqual([`${await siteOf(own.deploymentId)}${sent}`, separator])
    // Clients parse it unchanged, and it leads to no other host.
    const { href, host } = new URL(url)
    expect([href, new URL(await siteOf(own.deploymentId)).host]).toEqual([url, host])
    expect(made.reading.isValid).toBe(true)
    expect(new URL(url).searchParams.getAll('__sticky')).toHaveLength(1)
  })

  test.each(['k', 'x'.repeat(255), '🐱'.repeat(255), ' ', 'a\nb\0', '__proto__'])(
    'may have the key %j',
    async (key) => {
      const { status, body } = await mint({ key })
      expect(status).toBe(200)
      expect(read(body.url as string).reading).toMatchObject({ pin: { keyHash: hashOf(own.deploymentId, key) } })
    },
  )
})

describe('refused', () => {
  test('is whoever is no Function (A §4, D9)', async () => {
    expect((await mint({}, null)).status).toBe(401)
    const denied = { status: 403, body: { error: 'This operation needs a token of a Function' } }
    const key = await newKey(platform, ana, [SCOPE])
    expect(await mint({}, key.token)).toMatchObject(denied)
    expect(await mint({}, ana.token)).toMatchObject(denied)
    expect(await mint({}, await ana.person.token(everyScope))).toMatchObject(denied)
    // Refused before the input is validated (D18).
    expect(await mint({ endpoint: 'x' }, key.token)).toMatchObject(denied)
  })

  test('is a Function whose token lacks the scope', async () => {
    const narrow = await tokenOf(platform, own.id, own.secret, { scope: 'network:storage:write' })
    expect(await mint({}, narrow)).toMatchObject({
      status: 403,
      body: { error: `The token lacks the scope ${SCOPE}` },
    })
  })

  test.each<[string, Record<string, unknown>]>([
    ['/endpoint', { endpoint: undefined }],
    ['/endpoint', { endpoint: null }],
    ['/endpoint', { endpoint: ['/a'] }],
    ['/endpoint', { endpoint: '' }],
    ['/endpoint', { endpoint: 'a' }],
    ['/endpoint', { endpoint: '?a' }],
    ['/endpoint', { endpoint: ' /a' }],
    ['/endpoint', { endpoint: 'https://evil.test/a' }],
    ['/endpoint', { endpoint: '//evil.test/a' }],
    ['/endpoint', { endpoint: '//' }],
    ['/endpoint', { endpoint: '/\\evil.test' }],
    ['/endpoint', { endpoint: '/a\\b' }],
    ['/endpoint', { endpoint: '/.//evil.test' }],
    ['/endpoint', { endpoint: '/a/..//evil.test' }],
    ['/endpoint', { endpoint: '/%2e//evil.test' }],
    ['/endpoint', { endpoint: '/\t/evil.test' }],
    ['/endpoint', { endpoint: '/a\r\nb' }],
    ['/endpoint', { endpoint: '/a\0' }],
    ['/endpoint', { endpoint: '/a\u007f' }],
    ['/endpoint', { endpoint: '/a\u0085' }],
    ['/endpoint', { endpoint: '/a?b\u001f' }],
    ['/endpoint', { endpoint: '/\ud800' }],
    ['/endpoint', { endpoint: '/a#b' }],
    ['/endpoint', { endpoint: '/a#' }],
    ['/endpoint', { endpoint: '/a?__sticky=x' }],
    ['/endpoint', { endpoint: '/a?b&__sticky' }],
    ['/endpoint', { endpoint: '/a?%5f_sticky=x' }],
    ['/endpoint', { endpoint: `/${'x'.repeat(2_048)}` }],
    ['/endpoint', { endpoint: `/${'ü'.repeat(342)}` }],
    ['/endpoint', { endpoint: `/a?${'x'.repeat(2_046)}` }],
    ['/endpoint', { endpoint: `/a?${'ü'.repeat(2_000)}` }],
    ['/endpoint', { endpoint: `${'/..'.repeat(700)}/a` }],
    ['/key', { key: undefined }],
    ['/key', { key: '' }],
    ['/key', { key: 1 }],
    ['/key', { key: 'x'.repeat(256) }],
    ['/key', { key: 'a\udc00' }],
    ['/method', { method: 'get' }],
    ['/method', { method: 'PROPFIND' }],
    ['/method', { method: '' }],
    ['/method', { method: null }],
    ['/expiresInSeconds', { expiresInSeconds: 59 }],
    ['/expiresInSeconds', { expiresInSeconds: 86_401 }],
    ['/expiresInSeconds', { expiresInSeconds: 60.5 }],
    ['/expiresInSeconds', { expiresInSeconds: '60' }],
    ['/deploymentId', { deploymentId: newId() }],
  ])('is a wrong %s: %j', async (property, body) => {
    expect(await mint(body)).toMatchObject({ status: 422, body: { type: 'validation', on: 'body', property } })
  })
})

describe('its deployment', () => {
  test('is kept until a minute after the last of its URLs has expired (D83)', async () => {
    const made = await newFunction(platform, ana)
    const expiryOf = async (expiresInSeconds: number) =>
      new Date((await mint({ expiresInSeconds }, made.token)).body.expiresAt as string).getTime()
    const hour = await expiryOf(3_600)
    expect(await pinnedUntil(made)).toBe(hour + 60_000)
    await expiryOf(60)
    expect(await pinnedUntil(made)).toBe(hour + 60_000)
    const later = await expiryOf(3_700)
    expect(await pinnedUntil(made)).toBe(later + 60_000)
    platform.clock.advance(3_690_000)
    expect(await retireDeployment(platform.api, made.deploymentId)).toBe(false)
    platform.clock.advance(80_000)
    expect(await retireDeployment(platform.api, made.deploymentId)).toBe(true)
  })

  test('is kept for the longer of two URLs that are minted at once', async () => {
    const made = await newFunction(platform, ana)
    const mintFor = (expiresInSeconds: number) => () => mint({ expiresInSeconds }, made.token)
    const [long, short] = await holding(
      platform.databaseUrl,
      (held) => held`select 1 from deployments where id = ${made.deploymentId} for update`,
      [mintFor(86_400), mintFor(60)],
    )
    expect([long.status, short.status]).toEqual([200, 200])
    expect(await pinnedUntil(made)).toBe(new Date(long.body.expiresAt as string).getTime() + 60_000)
  })

  test('is written to no more than once a minute, and not waited for in between', async () => {
    const made = await newFunction(platform, ana)
    const { token, deploymentId } = made
    expect((await mint({}, token)).status).toBe(200)
    const pinned = await pinnedUntil(made)
    const rival = postgres(platform.databaseUrl, { max: 1, onnotice: () => {} })
    onTestFinished(() => rival.end())
    await rival.begin(async (held) => {
      await held`select 1 from deployments where id = ${deploymentId} for update`
      for (const answer of await Promise.all(Array.from({ length: 20 }, () => mint({}, token))))
        expect(answer.status).toBe(200)
    })
    expect(await pinnedUntil(made)).toBe(pinned)
    platform.clock.advance(61_000)
    expect((await mint({}, token)).status).toBe(200)
    expect(await pinnedUntil(made)).toBeGreaterThanOrEqual(pinned + 60_000)
  })

  test.each<[DeploymentStatus, boolean, number]>([
    ['PROVISIONING', false, 200],
    ['ACTIVE', false, 200],
    ['FAILED', false, 409],
    ['ACTIVE', true, 409],
  ])('that is %s, retired: %s, answers %s, pinned or not', async (status, isRetired, expected) => {
    const { deploymentId, token } = await newFunction(platform, ana)
    const retiredAt = isRetired ? platform.api.now() : null
    await setDeployment(deploymentId, { status, retiredAt })
    expect((await mint({}, token)).status).toBe(expected)
    const pinned = new Date(platform.api.now().getTime() + 90_000_000)
    await setDeployment(deploymentId, { pinnedUntil: pinned })
    const answer = await mint({}, token)
    expect(answer.status).toBe(expected)
    if (expected === 409) expect(answer.body).toEqual({ error: 'The deployment was retired or has failed' })
    expect((await deploymentOf(platform, deploymentId)).pinnedUntil).toEqual(pinned)
  })

  test.each(['mint', 'retire'])('minting and retiring at once, %s first, ends in one of them (D83)', async (first) => {
    const made = await newFunction(platform, ana)
    const mintIt = async () => (await mint({}, made.token)).status
    const retireIt = () => retireDeployment(platform.api, made.deploymentId)
    const outcomes = await holding<readonly (number | boolean)[]>(
      platform.databaseUrl,
      (held) => held`select 1 from deployments where id = ${made.deploymentId} for update`,
      first === 'mint' ? [mintIt, retireIt] : [retireIt, mintIt],
    )
    expect(outcomes).toEqual(first === 'mint' ? [200, false] : [true, 409])
    const { retiredAt, pinnedUntil: pin } = await deploymentOf(platform, made.deploymentId)
    expect([retiredAt !== null, pin !== null]).toEqual(first === 'mint' ? [false, true] : [true, false])
  })
})
