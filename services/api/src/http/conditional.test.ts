import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../test/scenario.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

test('a GET answers with an ETag, and 304 without a body to who names it', async () => {
  const on = `GET /applications/${ana.applicationId}/env-vars`
  const first = await platform.call(ana.token, on)
  const { etag = '' } = first.headers
  expect(etag).toMatch(/^"[\w-]{22}"$/)
  expect(first.headers['cache-control']).toBe('private, no-cache')
  for (const text of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const again = await platform.call(ana.token, on, undefined, { 'if-none-match': text })
    expect([again.status, again.text, again.headers.etag], text).toEqual([304, '', etag])
  }
  for (const text of ['"other"', '', etag.slice(1)])
    expect((await platform.call(ana.token, on, undefined, { 'if-none-match': text })).status, text).toBe(200)

  await platform.call(ana.token, `POST /applications/${ana.applicationId}/env-vars`, { key: 'NEW', value: '1' })
  const changed = await platform.call(ana.token, on, undefined, { 'if-none-match': etag })
  expect(changed.status).toBe(200)
  expect(changed.headers.etag).not.toBe(etag)
})

test('whoever has lost the right is refused, whatever they name', async () => {
  const ben = await newOwner(platform)
  const on = `GET /applications/${ana.applicationId}/env-vars`
  expect((await platform.call(ben.token, on, undefined, { 'if-none-match': '*' })).status).toBe(404)
})
