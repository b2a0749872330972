// engines: s3
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy } from '../../../../test/deploy.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { assetIdOf } from '../deployments/asset-id.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const list = (id: string, query = '') => platform.call(ana.token, `GET /deployments/${id}/files${query}`)

test('the files of a deployment are listed by path, a page at a time (wire.md Extensions)', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '<h1>', 'b/app.js': 'x', 'ä.html': '' } })
  const first = await list(id, '?limit=2')
  expect([first.status, first.body]).toEqual([
    200,
    {
      items: [
        { id: assetIdOf(id, 'b/app.js'), path: 'b/app.js', bytes: 1, type: 'text/javascript; charset=utf-8' },
        { id: assetIdOf(id, 'index.html'), path: 'index.html', bytes: 4, type: 'text/html; charset=utf-8' },
      ],
      total: 3,
      nextCursor: expect.any(String) as string,
    },
  ])
  const cursor = encodeURIComponent(first.body.nextCursor as string)
  expect((await list(id, `?limit=2&cursor=${cursor}`)).body).toMatchObject({
    items: [{ path: 'ä.html', bytes: 0 }],
    total: 3,
    nextCursor: null,
  })
  const other = await deploy(platform, ana, {})
  expect((await list(other.id, `?cursor=${cursor}`)).status).toBe(400)
})

test('a deployment without files yet has an empty list', async () => {
  const { body } = await platform.call(ana.token, 'POST /deployments', { applicationId: ana.applicationId })
  expect((await list(body.id as string)).body).toEqual({ items: [], total: 0, nextCursor: null })
})
