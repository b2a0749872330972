import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy, type Deployed, giveHostname, visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { askImage, imagePath, picture } from '../../../../test/images.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'

/** While an edge hears notifications, what it knows does not age: only a notification makes it look again. */
const soon = { interval: 5 }

let platform: TestPlatform
let second: TestEdge
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  second = await platform.addEdge()
})
afterAll(() => platform.close())

const promote = async ({ token }: Owner, { id }: Pick<Deployed, 'id'>) =>
  expect((await platform.call(token, `POST /deployments/${id}/promote`)).status).toBe(200)

test('a promotion is seen on an edge that had kept the other deployment', async () => {
  const ana = await newOwner(platform)
  const host = await giveHostname(platform, ana.applicationId)
  const [one, two] = [
    await deploy(platform, ana, { files: { 'index.html': 'one' } }),
    await deploy(platform, ana, { files: { 'index.html': 'two' }, isCurrent: false }),
  ]
  const textThere = async () => (await visit(second, host)).text
  expect(await textThere()).toBe('one')
  await promote(ana, two)
  await expect.poll(textThere, soon).toBe('two')
  await promote(ana, one)
  await expect.poll(textThere, soon).toBe('one')
})

test('a purge of images is seen on an edge that had kept one', async () => {
  const ana = await newOwner(platform)
  const content = await picture(400, 200)
  const site = await deploy(platform, ana, { files: { 'a.jpg': { content, contentType: 'image/jpeg' } } })
  const cacheThere = async () => (await askImage(second, site, imagePath('/a.jpg', 'width=16'))).headers['x-cache']
  for (const source of ['', '?source=%2Fa.jpg']) {
    await cacheThere()
    expect(await cacheThere()).toBe('HIT')
    const purged = await platform.call(ana.token, `DELETE /deployments/${site.id}/image-cache${source}`)
    expect(purged.status).toBe(200)
    await expect.poll(cacheThere, soon).toBe('MISS')
  }
})

test('an answer that an edge keeps is not served where its hostname has moved to another deployment', async () => {
  const ana = await newOwner(platform)
  const host = await giveHostname(platform, ana.applicationId)
  const deployCached = async (text: string) => {
    const code = handler(`res.setHeader('cache-control', 's-maxage=600'); res.end('${text}')`)
    const archive = buildOutput({ index: code }, { routes: [{ src: '/.*', dest: '/' }] })
    const { id, status } = await untilEnded(platform, (await newDeployment(platform, ana, { archive })).id)
    if (status !== 'ACTIVE') throw new Error(await logOf(platform, id))
    return { id }
  }
  const askThere = async () => {
    const { text, headers } = await visit(second, host)
    return [text, headers['x-cache']]
  }
  const one = await deployCached('one')
  expect(await askThere()).toEqual(['one', 'MISS'])
  expect(await askThere()).toEqual(['one', 'HIT'])
  await deployCached('two')
  await expect.poll(askThere, soon).toEqual(['two', 'HIT'])
  // Promoting back finds the cached answer, since it belongs to that deployment.
  await promote(ana, one)
  await expect.poll(askThere, soon).toEqual(['one', 'HIT'])
})

test('a deployment that was retired is gone on an edge that had kept it', async () => {
  const ana = await newOwner(platform)
  const old = await deploy(platform, ana, { files: { 'index.html': 'old' } })
  await deploy(platform, ana, { files: { 'index.html': 'new' } })
  const statusThere = async () => (await visit(second, old.host)).status
  expect(await statusThere()).toBe(200)
  expect(await retireDeployment(platform.api, old.id)).toBe(true)
  await expect.poll(statusThere, soon).toBe(410)
})
