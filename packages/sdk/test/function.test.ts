import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { visit } from '../../../services/api/test/deploy.ts'
import { newDeployment, untilEnded } from '../../../services/api/test/deployments.ts'
import { buildOutput } from '../../../services/api/test/functions.ts'
import { newOwner, storeObject } from '../../../services/api/test/scenario.ts'
import { createBucket, Platform, staticToken } from '../src/index.ts'
import { bundle } from './bundle.ts'

let server: TestPlatform
beforeAll(async () => {
  server = await startPlatform({ hasWorker: true })
})
afterAll(() => server.close())

/** A Function that lists a bucket of its own environment, and says how many requests its Platform has sent. */
const source = `
import { all, listObjects, Platform } from '../src/index.ts'
import { fromEnv } from '../src/index.ts'
let sent = []
const counting = (url, init) => {
  sent.push(new URL(url).pathname.split('/').at(-1))
  return fetch(url, init)
}
const platform = new Platform()
const counted = new Platform({ ...fromEnv(), fetch: counting })
export default async function (request, response) {
  const place = { applicationId: process.env.PLATFORM_APPLICATION_ID, environment: process.env.PLATFORM_ENVIRONMENT, bucket: 'media' }
  const keys = []
  for await (const { key } of all(listObjects, platform, place)) keys.push(key)
  sent = []
  await listObjects(counted, place)
  response.end(JSON.stringify({ keys, sent }))
}`

test('a Function reads the bucket of its own environment with nothing configured, and gets a fresh token when its own has died', async () => {
  const owner = await newOwner(server)
  const user = new Platform({ baseUrl: server.apiUrl, credential: staticToken(owner.token) })
  const { applicationId } = owner
  for (const environment of ['production', 'preview']) {
    const bucket = await createBucket(user, { applicationId, environment, body: { name: 'media' } })
    await storeObject(server, bucket.id, `of-${environment}.txt`, 'x')
  }
  const archive = buildOutput({ index: await bundle(source, 'node') }, { routes: [{ src: '/.*', dest: '/' }] })
  const { id } = await newDeployment(server, owner, { archive, environment: 'preview' })
  const deployment = await untilEnded(server, id)
  expect(deployment.failureReason).toBeNull()
  const host = `${deployment.label}.${server.api.appsUrl.host}`
  const ask = async () => JSON.parse((await visit(server, host)).text) as unknown
  expect(await ask()).toEqual({ keys: ['of-preview.txt'], sent: ['token', 'objects'] })
  expect(await ask()).toEqual({ keys: ['of-preview.txt'], sent: ['objects'] })
  // The Function's own clock does not move: it learns of the end by a 401.
  server.clock.advance(301_000)
  expect(await ask()).toEqual({ keys: ['of-preview.txt'], sent: ['objects', 'token', 'objects'] })
})
