import { randomBytes, randomUUID } from 'node:crypto'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { setMember } from '../../tenancy/organizations/members.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const newLabel = () => `shop-${randomBytes(4).toString('hex')}x`
const put = (label: unknown, owner: Pick<Owner, 'token' | 'applicationId'> = ana) =>
  platform.call(owner.token, `PUT /applications/${owner.applicationId}/hostname`, { label })
const availability = async (label: string, owner: Pick<Owner, 'token' | 'applicationId'> = ana) =>
  platform.call(owner.token, `GET /applications/${owner.applicationId}/hostname/availability?label=${label}`)
const list = async (owner = ana) =>
  (await platform.call(owner.token, `GET /applications/${owner.applicationId}/hostnames`)).body as {
    items: object[]
    total: number
    label: string | null
  }

test('there is no hostname by default; one can be set before any deployment, and changed (A §4, D76)', async () => {
  const owner = await newOwner(platform)
  expect(await list(owner)).toEqual({ items: [], total: 0, label: null })
  const [first, second] = [newLabel(), newLabel()]
  const set = await put(first, owner)
  expect([set.status, set.body]).toEqual([
    200,
    { label: first, hostname: `${first}.${platform.api.appsUrl.host}`, live: false },
  ])
  await put(second, owner)
  const { appsUrl } = platform.api
  const unused = (type: string, label: string) => ({
    id: expect.any(String) as string,
    hostname: `${label}.${appsUrl.host}`,
    type,
    active: false,
    deploymentId: null,
    branchId: null,
    source: 'user',
    url: `http://${label}.${appsUrl.host}`,
    createdAt: expect.stringMatching(/Z$/) as string,
  })
  expect(await list(owner)).toEqual({
    // The preview environment's hostname follows the production label.
    items: [unused('APP', second), unused('BRANCH', `${second}--preview`)],
    total: 2,
    label: second,
  })
  expect((await availability(first)).body).toEqual({ available: true }) // what was given up is free
})

test('of racing applications one has the label, the others 409 (A §4, D76)', async () => {
  const label = newLabel()
  const owners = await Promise.all(Array.from({ length: 6 }, () => newOwner(platform)))
  const racers = await Promise.all(owners.map((owner) => put(label, owner)))
  expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409, 409, 409, 409])
  const winner = owners[racers.findIndex(({ status }) => status === 200)] as Owner
  expect((await availability(label, winner)).body).toEqual({ available: true })
  expect((await put(label, winner)).status).toBe(200)
  expect((await availability(label)).body).toEqual({ available: false, reason: 'The hostname is taken' })
})

test.each(['admin', 'www', 'mcp', 'preview', 'demo', 'metrics', 'shop-0a1b2c3d'])(
  '%s is reserved: 400, and not available (D76)',
  async (label) => {
    expect((await put(label)).status).toBe(400)
    const { status, body } = await availability(label)
    expect([status, body]).toEqual([200, { available: false, reason: expect.any(String) as string }])
  },
)

test.each(['ab', 'a'.repeat(55), 'a--b', '-ab', 'ab-', 'a.b', 'a_b', 'ümlaut', ''])(
  '%j is no label: 422 (D76)',
  async (label) => {
    expect(await put(label)).toMatchObject({ status: 422, body: { on: 'body', property: '/label' } })
    expect(await availability(encodeURIComponent(label))).toMatchObject({
      status: 422,
      body: { on: 'query', property: '/label' },
    })
  },
)

test('a label of 54 characters is one: a deployment adds nine, and a label of DNS has 63 (D76)', async () => {
  expect((await put(`x${randomBytes(23).toString('hex')}zzzzzzz`)).status).toBe(200)
})

test('a member may look and not set; a key of the application may set with the scope (wire.md roles)', async () => {
  const mia = await platform.person()
  await setMember(platform.api, ana.organizationId, mia.userId, 'MEMBER')
  const member = { token: await mia.token(everyScope), applicationId: ana.applicationId }
  expect([(await put(newLabel(), member)).status, (await availability(newLabel(), member)).status]).toEqual([403, 200])
  const key = await newKey(platform, ana, ['network:applications:write'])
  expect((await put(newLabel(), { token: key.token, applicationId: ana.applicationId })).status).toBe(200)
  expect((await put(newLabel(), { token: key.token, applicationId: randomUUID() })).status).toBe(404)
})

test('a label is lower-cased before it is judged: free, taken, reserved or none (D76, D95)', async () => {
  const [owner, other] = [await newOwner(platform), await newOwner(platform)]
  const label = newLabel()
  expect(await put(label.toUpperCase(), owner)).toMatchObject({ status: 200, body: { label } })
  expect((await availability(label.toUpperCase(), owner)).body).toEqual({ available: true })
  expect((await put(label.toUpperCase(), other)).status).toBe(409)
  for (const reserved of ['ADMIN', 'Shop-0A1B2C3D']) {
    expect([reserved, (await put(reserved, owner)).status]).toEqual([reserved, 400])
    expect((await availability(reserved, owner)).body).toMatchObject({ available: false })
  }
  // Unicode lower-cases the Kelvin sign to a k; a label has ASCII letters alone.
  for (const none of ['A--B', 'AB', 'Shop.A', '\u212Aiosk']) {
    expect([none, (await put(none, owner)).status]).toEqual([none, 422])
    expect([none, (await availability(encodeURIComponent(none), owner)).status]).toEqual([none, 422])
  }
})
