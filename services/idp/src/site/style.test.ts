import { tokensCss } from '@platform/look/tokens'
import { colourLiteralsOf } from '@platform/testkit/colour-literals'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addConnections, addSessions } from '../../test/crowded-account.ts'
import { startTestIdp, type TestIdp } from '../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const bytesAt = async (path: string): Promise<Buffer> =>
  Buffer.from(await (await fetch(`${idp.url}${path}`)).arrayBuffer())
const pathIn = (text: string, pattern: RegExp): string => pattern.exec(text)?.[0] ?? ''

/** What a browser fetches for a page besides the script, compressed as a proxy does; fonts are as they are. */
async function weightOf(page: string): Promise<number> {
  const style = await bytesAt(pathIn(page, /\/style\.[0-9a-f]+\.css/))
  const font = await bytesAt(`/${pathIn(style.toString(), /inter-latin\.[0-9a-f]+\.woff2/)}`)
  const icon = await bytesAt(pathIn(page, /\/icon\.[0-9a-f]+\.svg/))
  expect(font.length).toBeGreaterThan(40_000)
  return gzipSync(page).length + gzipSync(style).length + font.length + gzipSync(icon).length
}

test('the style names colours by the tokens alone', async () => {
  const { text } = await idp.send('GET /sign-in')
  const style = (await bytesAt(pathIn(text, /\/style\.[0-9a-f]+\.css/))).toString()
  expect(style.startsWith(tokensCss)).toBe(true)
  expect(colourLiteralsOf(tokensCss).length).toBeGreaterThan(40)
  expect(colourLiteralsOf(style.slice(tokensCss.length))).toEqual([])
})

test('a page, its style and its font are at most 75 kB, compressed; the list of 200 sessions too', async () => {
  expect(await weightOf((await idp.send('GET /sign-in')).text)).toBeLessThanOrEqual(75_000)
  const ana = await idp.person()
  const browser = await idp.signedIn(ana)
  await addSessions(idp, ana, 199)
  await addConnections(idp, ana, [await idp.client({ name: 'Console' })], { each: 50, scope: 'openid offline_access' })
  for (const path of ['/sessions', '/applications'])
    expect(await weightOf((await browser.visit(`${idp.url}${path}`)).body)).toBeLessThanOrEqual(75_000)
})
