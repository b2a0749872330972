import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'

const SDK = 'sdk-0.20.0-1f0c9a2b.tgz'
const CLI = 'cli-1.12.3-00000000.tgz'
const bytes = Buffer.alloc(300_000, 'bytes ')

let platform: TestPlatform
let parent: string
let folder: string
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'clients-'))
  folder = join(parent, 'clients')
  await mkdir(folder)
  platform = await startPlatform({ env: { CLIENTS_FOLDER: folder } })
})
afterAll(async () => {
  await platform.close()
  await rm(parent, { recursive: true })
})

const put = (name: string, content: string | Buffer) => writeFile(join(folder, name), content)
const get = (name: string, headers: Record<string, string> = {}) =>
  platform.call(null, `GET /docs/clients/${name}`, undefined, headers)
const hex = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')

test('without a folder, and in one that is not there, every client is missing', async () => {
  const environments: Record<string, string>[] = [{}, { CLIENTS_FOLDER: join(parent, 'none') }]
  for (const env of environments) {
    const other = await startPlatform({ env })
    onTestFinished(() => other.close())
    for (const name of [SDK, 'checksums.txt', 'unknown'])
      expect((await other.call(null, `GET /docs/clients/${name}`)).body).toEqual({ error: 'File not found' })
  }
})

test('a package is served whole, to be kept for good, to anybody', async () => {
  for (const name of [SDK, CLI]) {
    await put(name, bytes)
    const answer = await fetch(`${platform.apiUrl}/docs/clients/${name}`)
    expect(answer.status).toBe(200)
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'application/gzip',
      'content-length': '300000',
      'cache-control': 'public, max-age=31536000, immutable',
      etag: `"${hex(bytes)}"`,
    })
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true)
    const head = await fetch(`${platform.apiUrl}/docs/clients/${name}`, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), (await head.bytes()).length]).toEqual([200, '300000', 0])
  }
})

test.each([
  ['platform.mjs', 'text/javascript; charset=utf-8'],
  ['checksums.txt', 'text/plain; charset=utf-8'],
  ['llms.txt', 'text/plain; charset=utf-8'],
  ['agents.md', 'text/markdown; charset=utf-8'],
])('%s is asked for again each time, and sent again only when its bytes have changed', async (name, type) => {
  const then = new Date(0)
  await put(name, 'one')
  await utimes(join(folder, name), then, then)
  const first = await get(name)
  expect([first.status, first.text, first.headers['content-type']]).toEqual([200, 'one', type])
  expect([first.headers['cache-control'], first.headers.etag]).toEqual(['no-cache', `"${hex('one')}"`])
  const current = await get(name, { 'if-none-match': `"x", W/"${hex('one')}"` })
  expect([current.status, current.text, current.headers.etag]).toEqual([304, '', `"${hex('one')}"`])
  // Of the same size and time, as releases in an image may be.
  await put(name, 'two')
  await utimes(join(folder, name), then, then)
  const changed = await get(name, { 'if-none-match': `"${hex('one')}"` })
  expect([changed.status, changed.text]).toEqual([200, 'two'])
  await put(name, '')
  expect((await get(name)).headers['content-length']).toBe('0')
})

test('another version of a package is missing, and the answer has the address of the newest that is there', async () => {
  await put(SDK, bytes)
  const newer = 'sdk-0.9.1-ffffffff.tgz'
  await put(newer, bytes)
  await utimes(join(folder, SDK), new Date(1_000), new Date(1_000))
  for (const name of ['sdk-0.19.0-1f0c9a2b.tgz', 'sdk-0.20.0-1f0c9a2c.tgz', 'sdk-latest.tgz', 'sdk-%2e%2e']) {
    const { status, body } = await get(name)
    const error = `File not found; the current one is ${platform.apiUrl}/docs/clients/${newer}`
    expect([name, status, body]).toEqual([name, 404, { error }])
  }
  await rename(join(folder, newer), join(folder, 'kept'))
  expect((await get('sdk-latest.tgz')).body.error).toContain(`/docs/clients/${SDK}`)
  await rm(join(folder, CLI), { force: true })
  expect((await get(CLI)).body).toEqual({ error: 'File not found' })
})

/** Sends a path as it is; clients that know URLs would tidy it up. */
async function statusOf(path: string): Promise<string | undefined> {
  const socket = connect(Number(new URL(platform.apiUrl).port), 'localhost')
  await once(socket, 'connect')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  return /^HTTP\/1\.1 (\d+)/.exec(await text(socket))?.[1]
}

test('nothing but these names is served: no other file, no folder above, no link, folder or pipe', async () => {
  const unlisted = ['secret.txt', `x${SDK}`, `${SDK}.txt`, SDK.toUpperCase(), 'sdk-0.20.0.tgz', 'checksums.txt~']
  for (const name of unlisted) await put(name, 'secret')
  await writeFile(join(parent, 'checksums.txt'), 'of the folder above')
  await put('checksums.txt', 'right')
  const tricks = [
    ...unlisted,
    '../checksums.txt',
    '..%2fchecksums.txt',
    '..%2Fclients%2Fchecksums.txt',
    '%2e%2e/checksums.txt',
    '..%5cchecksums.txt',
    './checksums.txt%00',
    'checksums.txt%00.tgz',
    'checksums.txt/',
    encodeURIComponent(join(folder, 'checksums.txt')),
    `/${join(folder, 'checksums.txt')}`,
    '%ff',
    '__proto__',
    '',
  ]
  for (const name of tricks) expect([name, await statusOf(`/docs/clients/${name}`)]).toEqual([name, '404'])
  expect(await statusOf('/docs/clients/checksums.txt')).toBe('200')

  const names = ['sdk-1.0.0-11111111.tgz', 'sdk-1.0.0-22222222.tgz', 'sdk-1.0.0-33333333.tgz'] as const
  await symlink(join(folder, 'secret.txt'), join(folder, names[0]))
  await mkdir(join(folder, names[1]))
  execFileSync('mkfifo', [join(folder, names[2])])
  await put(SDK, bytes)
  await utimes(join(folder, SDK), new Date(1_000), new Date(1_000))
  for (const name of names) expect((await get(name)).body.error).toContain(`/docs/clients/${SDK}`)
})

const hasNoProc = existsSync('/proc/self/fd') ? undefined : 'it looks for open files in /proc'
test('no file stays open, however its answer ends', unless(hasNoProc), async () => {
  const openFiles = () =>
    readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder)
      } catch {
        return false // closed since it was listed
      }
    })
  await put(CLI, Buffer.alloc(20_000_000, 'x'))
  const leave = new AbortController()
  const answer = await fetch(`${platform.apiUrl}/docs/clients/${CLI}`, { signal: leave.signal })
  await answer.body?.getReader().read()
  expect(openFiles()).toHaveLength(1)
  leave.abort()
  await expect.poll(openFiles).toEqual([])
  await put('llms.txt', 'text')
  await mkdir(join(folder, 'cli-1.0.0-22222222.tgz'))
  await fetch(`${platform.apiUrl}/docs/clients/llms.txt`, { method: 'HEAD' })
  expect((await get('llms.txt', { 'if-none-match': '*' })).status).toBe(304)
  expect((await get('llms.txt')).status).toBe(200)
  expect((await get('cli-1.0.0-22222222.tgz')).status).toBe(404)
  await expect.poll(openFiles).toEqual([])
})

test('an address that asks for clients too often is told to wait', async () => {
  const from = { 'x-forwarded-for': '203.0.113.77' }
  await put('llms.txt', 'text')
  const statuses = new Set<number>()
  for (let n = 0; n < 601; n++) statuses.add((await get('llms.txt', from)).status)
  expect([...statuses]).toEqual([200, 429])
})
