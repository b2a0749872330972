import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@platform/runtime/new-id'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { IncomingMessage } from 'node:http'
import { openPlatformFolders, type PlatformFolders } from './platform-folders.ts'

let folder: string
let folders: PlatformFolders
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pf-'))
  const answer = (deploymentId: string, _: unknown, outgoing: { end(text: string): unknown }) =>
    void outgoing.end(deploymentId)
  folders = openPlatformFolders({
    folder: join(folder, 'p'),
    logger: { warn: () => {} } as never,
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
