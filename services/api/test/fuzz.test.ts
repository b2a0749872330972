import { hash, randomInt, randomUUID } from 'node:crypto'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import * as fc from 'fast-check'
import { decodeJwt } from 'jose'
import { isDrill } from '@platform/testkit/test-environment'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { setMember } from '../src/areas/tenancy/organizations/members.ts'
import { setQuota } from '../src/areas/tenancy/products/quotas.ts'
import { faultsOfAnswer } from './answer-check.ts'
import { type Case, casesOf, objectText } from './fuzz-cases.ts'
import { newFunction } from './deployments.ts'
import { type Operation, operations } from './operations.ts'
import { type Reference, referencesOf } from './recipes.ts'
import { type Key, newKey, newOwner, type Owner } from './scenario.ts'
import { openSender, type RawRequest } from './send.ts'

// oxlint-disable-next-line node/no-process-env -- how long to look, and where to look again
const { FUZZ_SEED = String(randomInt(2 ** 31)), FUZZ_PATH } = process.env
const cases = Math.ceil((isDrill ? 100_000 : 5_000) / operations.length)
const seed = Number(FUZZ_SEED)

let platform: TestPlatform
let sender: ReturnType<typeof openSender>
let ana: Owner
let mia: string
let miaId: string
const worlds = new Map<string, World>()
let ben: Owner
const scopesOfKeys = everyScope.filter((scope) => /^(network|platform:organizations):/.test(scope))

/** The same token, for as long as a long run takes. */
const lasting = (keySet: TestPlatform['idp']['keySet'], token: string): string => {
  const claims = decodeJwt(token)
  return keySet.sign('at+jwt', { ...claims, exp: (claims.iat ?? 0) + 3_600 })
}

beforeAll(
  async () => {
    platform = await startPlatform()
    sender = openSender(platform.apiUrl)
    const [first, second, member] = await Promise.all([newOwner(platform), newOwner(platform), platform.person()])
    ana = { ...first, token: lasting(platform.idp.keySet, first.token) }
    ben = { ...second, token: lasting(platform.idp.keySet, second.token) }
    mia = lasting(platform.idp.keySet, await member.token(everyScope))
    miaId = member.userId
    // Now, while the address that they are made from has hardly been used.
    for (const { operationId } of operations) worlds.set(operationId, await newWorld())
  },
  60_000 + operations.length * 1_000,
)
afterAll(async () => {
  sender.close()
  await platform.close()
})

/** What one operation is tried with: an organization, an application and a key of its own, so that none fills up. */
interface World {
  owner: Owner
  key: Key
  /** A token of one of the application's Functions. */
  functionToken: string
  /** The id of something of this owner that a reference names; of a child the same one until it is `used`. */
  idOf: (reference: Reference, owner: Owner) => Promise<string>
  used: () => void
}

async function newWorld(): Promise<World> {
  const organization = await platform.call(ana.token, 'POST /organizations', { name: 'Fuzz' })
  const organizationId = organization.body.id as string
  for (const quota of ['applications', 'organizations_per_owner'] as const)
    await setQuota(platform.api, organizationId, quota, 1_000_000)
  await setMember(platform.api, organizationId, miaId, 'MEMBER')
  const application = await platform.call(ana.token, 'POST /applications', { organizationId, name: 'Fuzz' })
  const owner: Owner = { ...ana, organizationId, applicationId: application.body.id as string }
  const key = await newKey(platform, owner, scopesOfKeys)
  const { token: functionToken } = await newFunction(platform, owner)
  // What the examples of the document would run into.
  const taken = { key: 'DATABASE_URL', value: 'x' }
  await platform.call(ana.token, `POST /organizations/${organizationId}/env-vars`, taken)
  await platform.call(ana.token, `POST /applications/${owner.applicationId}/env-vars`, taken)
  const known = new Map<string, Promise<string>>()
  function idOf({ thing }: Pick<Reference, 'thing'>, of: Owner): Promise<string> {
    const text = `${thing.title} ${of.applicationId}`
    const lookup = known.get(text) ?? thing.make(platform, of, (parent) => idOf({ thing: parent }, of))
    known.set(text, lookup)
    return lookup
  }
  return {
    owner,
    key: { ...key, token: lasting(platform.api.keySet, key.token) },
    functionToken: lasting(platform.api.keySet, functionToken),
    idOf,
    used: () => known.clear(),
  }
}

const tokenFor = (actor: Case['actor'], { owner, key, functionToken }: World): string | null => {
  switch (actor) {
    case 'owner':
      return owner.token
    case 'member':
      return mia
    case 'stranger':
      return ben.token
    case 'key':
      return key.token
    case 'function':
      return functionToken
    case 'garbage':
      return 'garbage'
    case 'nobody':
      return null
  }
}

async function idFor(id: Case['ids'][number], reference: Reference, world: World): Promise<string> {
  if (typeof id === 'object') return id.odd
  if (id === 'missing') return randomUUID()
  return world.idOf(reference, id === 'own' ? world.owner : ben)
}

/** The request that a case stands for. The token endpoint gets a right key where the case says nothing else. */
async function requestOf(operation: Operation, options: Case, world: World): Promise<RawRequest> {
  const references = operation.security.length > 0 ? referencesOf(operation) : []
  const named = await Promise.all(
    references.map(async (reference, n) => ({
      ...reference,
      id: await idFor(options.ids[n] ?? 'missing', reference, world),
    })),
  )
  const ids = (on: Reference['on']) =>
    named.filter((reference) => reference.on === on).map(({ name, id }) => [name, id] as const)
  const inPath = Object.fromEntries(ids('path'))
  const query = [...ids('query'), ...options.query].map((member) =>
    member.map((text) => encodeURIComponent(text.toWellFormed())).join('='),
  )
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => inPath[name] ?? '')
  const [type] = Object.keys(operation.requestBody?.content ?? {})
  const line = {
    method: operation.method,
    path: query.length > 0 ? `${path}?${query.join('&')}` : path,
    token: tokenFor(options.actor, world),
    headers: {
      ...(type !== undefined && { 'content-type': type }),
      ...Object.fromEntries(ids('header')),
      ...options.headers,
    },
  }
  if (!options.body) return line
  if ('raw' in options.body)
    return { ...line, body: Buffer.from(options.body.raw, options.body.raw === '\xff' ? 'latin1' : 'utf8') }
  const { members } = options.body
  if (type === 'application/json')
    return {
      ...line,
      body: objectText([...ids('body').map(([name, id]) => [name, JSON.stringify(id)] as const), ...members]),
    }
  const own: Record<string, string> = { client_id: world.key.id, client_secret: world.key.secret }
  const form = members.map(([name, text]): [string, string] => [
    name,
    text.length % 4 !== 0 ? (own[name] ?? text) : text,
  ])
  return { ...line, token: options.actor === 'garbage' ? 'garbage' : null, body: new URLSearchParams(form).toString() }
}

const shown = ({ method, path, headers, body }: RawRequest): string =>
  `${method} ${path} ${JSON.stringify(headers)}\n${body?.toString().slice(0, 2_000) ?? ''}`

describe(`${cases} requests each, seed ${seed}`, () => {
  test.concurrent.each(operations.map((operation) => [operation.operationId, operation] as const))(
    '%s only ever answers what the document says, and never a 5xx',
    { timeout: 300_000 + cases * 200 },
    async (operationId, operation) => {
      const world = worlds.get(operationId) ?? expect.fail()
      const statuses = new Set<number>()
      const tried = fc.asyncProperty(casesOf(operation), async (options) => {
        const request = await requestOf(operation, options, world)
        const answer = await sender.send(request)
        statuses.add(answer.status)
        if (operation.method === 'DELETE' && answer.status === 204) world.used()
        const faults = faultsOfAnswer(operation, answer)
        if (answer.headers['retry-after']) faults.push('was throttled: this suite asks too much of one address or key')
        const isForeign = referencesInPath(operation).some((n) => options.ids[n] === 'foreign')
        if (isForeign && options.actor !== 'stranger' && answer.status < 300) faults.push("reached another's")
        if (faults.length > 0) throw new Error(`${faults.join('\n')}\n${shown(request)}`)
      })
      const result = await fc.check(tried, {
        seed: seedOf(operationId),
        numRuns: cases,
        ...(FUZZ_PATH && { path: FUZZ_PATH }),
      })
      if (!result.failed) {
        // Else it never got past the door, and nothing was tried.
        if (!FUZZ_PATH && cases >= 100) expect([...statuses].some((status) => status < 400)).toBe(true)
        return
      }
      const again = `FUZZ_SEED=${seed} FUZZ_PATH=${result.counterexamplePath} npx vitest run test/fuzz.test.ts -t '${operationId} '`
      throw new Error(`${String((result.errorInstance as Error | null)?.message)}\nagain: ${again}`)
    },
  )
})

/** A seed of its own for each operation, so that they are not all tried with the same. */
const seedOf = (operationId: string): number => seed ^ hash('sha256', operationId, 'buffer').readInt32BE()

const referencesInPath = (operation: Operation): number[] =>
  operation.security.length > 0
    ? [...referencesOf(operation).entries()].filter(([, { on }]) => on === 'path').map(([n]) => n)
    : []
