import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@platform/runtime/new-id'
import { connect } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { IncomingMessage } from 'node:http'
import { openPlatformFolders, type PlatformFolders } from './platform-folders.ts'

let folder: string
let folders: PlatformFolders
let lines: object[]
beforeEach(async () => {
  lines = []
  folder = await mkdtemp(join(tmpdir(), 'pf-'))
  const answer = (deploymentId: string, _: unknown, outgoing: { end(text: string): unknown }) =>
    void outgoing.end(deploymentId)
  folders = openPlatformFolders({
    folder: join(folder, 'p'),
    logger: { warn: () => {}, info: (line: object) => void lines.push(line) } as never,
    onApi: answer,
    onAssets: answer,
    onCache: answer,
  })
})
afterEach(async () => {
  await folders.close()
  await rm(folder, { recursive: true })
})

async function ask(path: string, name: string): Promise<string> {
  const [answer] = (await once(request({ socketPath: join(path, name) }).end(), 'response')) as [IncomingMessage]
  return Buffer.concat(await answer.toArray()).toString()
}

test('each deployment has sockets that answer for it', async () => {
  const [one, other] = [newId(), newId()]
  const paths = [await folders.open(one), await folders.open(other)]
  expect(await ask(paths[0] ?? '', 'api.sock')).toBe(one)
  expect(await ask(paths[1] ?? '', 'assets.sock')).toBe(other)
  expect(await ask(paths[0] ?? '', 'cache.sock')).toBe(one)
})

test('one that is opened while it closes answers', async () => {
  const id = newId()
  for (let n = 0; n < 5; n++) {
    const before = await folders.open(id)
    // Enough files to make the removal take a while.
    await Promise.all(Array.from({ length: 300 }, (_, file) => writeFile(join(before, String(file)), '')))
    const [, path] = await Promise.all([folders.closeUnused(() => false), folders.open(id)])
    expect(await ask(path, 'api.sock')).toBe(id)
    expect(await ask(path, 'assets.sock')).toBe(id)
  }
})

test('one that is in use stays', async () => {
  const id = newId()
  const path = await folders.open(id)
  await folders.closeUnused((each) => each === id)
  expect(await ask(path, 'api.sock')).toBe(id)
  await folders.closeUnused(() => false)
  await expect(ask(path, 'api.sock')).rejects.toThrow(/ENOENT/)
})

test.each([
  ['garbage', 'GET / HTTP/1.1\nHost: a\n\n', 400, 'The request is not valid HTTP'],
  ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n', 405, 'CONNECT is for proxies, and this is none'],
])(
  "a Function's %s gets an error of the API with an id, which is in one log line of its deployment",
  async (_, bytes, status, error) => {
    const id = newId()
    const path = await folders.open(id)
    for (const name of ['api.sock', 'assets.sock', 'cache.sock']) {
      const socket = connect(join(path, name))
      socket.write(bytes)
      const answer = (await socket.setEncoding('utf8').toArray()).join('')
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
      expect(answer.split('\r\n\r\n')[1]).toBe(JSON.stringify({ error }))
      const requestId = /^x-request-id: (.+)\r$/im.exec(answer)?.[1]
      expect(lines.splice(0)).toMatchObject([{ requestId, status, deploymentId: id }])
    }
  },
)
