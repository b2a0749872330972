import { randomBytes } from 'node:crypto'
import { createSigner } from '@platform/runtime/seal'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newFunction, type TestFunction } from '../../test/deployments.ts'
import { exchange, newOwner, unique } from '../../test/scenario.ts'
import { signDeploymentAddress } from './deployment-address.ts'

let platform: TestPlatform
let ana: TestFunction
let ben: TestFunction
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newFunction(platform, await newOwner(platform))
  ben = await newFunction(platform, await newOwner(platform))
})
afterAll(() => platform.close())

const addressOf = ({ deploymentId }: TestFunction) =>
  signDeploymentAddress(platform.api.deploymentAddressSigner, deploymentId)
/** What an edge relays for a Function; all relayed requests come from one address. */
const relayed = (of: TestFunction, value = addressOf(of)) =>
  exchange(platform, of.id, of.secret, {}, { 'x-platform-deployment': value, 'x-forwarded-for': '198.51.100.1' }).then(
    ({ status }) => status,
  )

test("one deployment's flood leaves another's token exchange alone (D56)", async () => {
  const flood = []
  for (let n = 0; n < 610; n++) flood.push(relayed(ana))
  const statuses = await Promise.all(flood)
  expect(statuses.filter((status) => status === 200)).toHaveLength(600)
  expect(statuses.filter((status) => status === 429)).toHaveLength(10)
  expect(await relayed(ben)).toBe(200)
  expect(await relayed(ana)).toBe(429)
})

test('a header that this platform did not sign for the deployment changes nothing', async () => {
  const address = `203.0.113.${Math.ceil(Math.random() * 250)}`
  // The counter of the address itself is used up.
  const key = `address:${address}`
  await Promise.all(Array.from({ length: 600 }, () => platform.api.limiter.hit([key])))
  const { deploymentId } = ben
  const others = createSigner([{ id: 'test', key: randomBytes(32) }], 'deployment address')
  const [, signature = ''] = addressOf(ana).split(/\.(.*)/)
  const forged = [
    undefined,
    '',
    deploymentId,
    `${deploymentId}.`,
    `${deploymentId}.test.${unique()}`,
    `${deploymentId}.${signature}`,
    signDeploymentAddress(others, deploymentId),
    signDeploymentAddress(platform.api.partSigner, deploymentId),
    `${addressOf(ben)}, ${addressOf(ben)}`,
    signDeploymentAddress(platform.api.deploymentAddressSigner, `anything-${unique()}`),
  ]
  for (const value of forged) {
    const headers = { 'x-forwarded-for': address, ...(value !== undefined && { 'x-platform-deployment': value }) }
    expect([value, (await exchange(platform, ben.id, ben.secret, {}, headers)).status]).toEqual([value, 429])
  }
  const headers = { 'x-forwarded-for': address, 'x-platform-deployment': addressOf(ben) }
  expect((await exchange(platform, ben.id, ben.secret, {}, headers)).status).toBe(200)
})
