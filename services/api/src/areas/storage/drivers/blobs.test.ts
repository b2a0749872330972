// engines: s3
import { randomBytes, randomUUID } from 'node:crypto'
import { type FileHandle, mkdtemp, open, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { newObjectsUrl } from '@platform/testkit/objects'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import type { Blobs } from '../objects/blobs.ts'
import { openBlobs } from './open-blobs.ts'

const folders: string[] = []
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true })
})
async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-blobs-'))
  folders.push(folder)
  return folder
}
async function* chunksOf(bytes: Buffer, size = 65_536): AsyncGenerator<Buffer> {
  for (let n = 0; n < bytes.length; n += size) yield bytes.subarray(n, n + size)
}
const whole = (bytes: Buffer) => ({ start: 0, end: bytes.length - 1 })

const drivers: Record<string, () => Promise<string>> = {
  folder: async () => pathToFileURL(await newFolder()).href,
  ...(inject('testServers').s3Url !== undefined && { s3: async () => (await newObjectsUrl()).url }),
}

describe.each(Object.entries(drivers))('blobs on the driver %s', (driver, urlOf) => {
  let blobs: Blobs
  beforeAll(async () => {
    blobs = await openBlobs(await urlOf())
  })
  afterAll(() => blobs.close())

  test.each([1, 65_536, 3_000_000])('of %i bytes read back whole and in part', async (length) => {
    for (const declared of [length, undefined]) {
      const [id, bytes] = [randomUUID(), randomBytes(length)]
      await blobs.write(id, chunksOf(bytes), declared)
      expect((await buffer(blobs.read(id, whole(bytes), 'owned'))).equals(bytes)).toBe(true)
      const range = { start: Math.floor(length / 3), end: Math.floor(length / 2) }
      expect((await buffer(blobs.read(id, range, 'owned'))).equals(bytes.subarray(range.start, range.end + 1))).toBe(
        true,
      )
    }
  })

  test('of which the last chunk is still in use leave the next read its bytes', async () => {
    const [slow, next] = [randomBytes(300_000), randomBytes(300_000)]
    const ids = { slow: randomUUID(), next: randomUUID() }
    await blobs.write(ids.slow, chunksOf(slow), slow.length)
    await blobs.write(ids.next, chunksOf(next), next.length)
    const read = async (id: string, bytes: Buffer, atLast: () => Promise<unknown>) => {
      const parts: Buffer[] = []
      let left = bytes.length
      for await (const chunk of blobs.read(id, whole(bytes), 'borrowed')) {
        parts.push(Buffer.from(chunk))
        left -= chunk.length
        if (left === 0) await atLast()
      }
      expect(Buffer.concat(parts).equals(bytes)).toBe(true)
    }
    for (let round = 0; round < 3; round++)
      await read(ids.slow, slow, async () => {
        await sleep(20) // nothing more follows, so the connection can be reused
        await read(ids.next, next, async () => {})
      })
  })

  test('whose source fails are not there, and the failure is the source’s own', async () => {
    for (const declared of [200_000, undefined]) {
      const id = randomUUID()
      async function* failing() {
        yield randomBytes(100_000)
        throw new Error('the client left')
      }
      await expect(blobs.write(id, failing(), declared)).rejects.toThrow('the client left')
      await expect(buffer(blobs.read(id, { start: 0, end: 9 }, 'owned'))).rejects.toBeInstanceOf(Error)
    }
  })

  test('a driver removes blobs without complaint from a place where none was ever written', async () => {
    const empty = await openBlobs(await urlOf())
    onTestFinished(() => empty.close())
    await expect(empty.remove([randomUUID()])).resolves.toBeUndefined()
  })

  test('are removed, and again without complaint', async () => {
    const ids = [randomUUID(), randomUUID()]
    for (const id of ids) await blobs.write(id, chunksOf(Buffer.from('x')), 1)
    await blobs.remove(ids)
    await blobs.remove([...ids, randomUUID()])
    for (const id of ids)
      await expect(buffer(blobs.read(id, { start: 0, end: 0 }, 'owned'))).rejects.toBeInstanceOf(Error)
  })

  test('can be checked for a store in which nothing is yet, and nothing is left of that', async () => {
    const folder = await newFolder()
    const url = driver === 'folder' ? pathToFileURL(join(folder, 'objects')).href : (await newObjectsUrl()).url
    const fresh = await openBlobs(url)
    await fresh.check()
    await blobs.check()
    fresh.close()
    expect(await readdir(folder)).toEqual([])
  })

  test('a reader who stops reading ends it', async () => {
    const [id, bytes] = [randomUUID(), randomBytes(2_000_000)]
    await blobs.write(id, chunksOf(bytes), bytes.length)
    const chunks = blobs.read(id, whole(bytes), 'owned')
    for await (const chunk of chunks) {
      expect(chunk.length).toBeGreaterThan(0)
      break
    }
    expect(await Array.fromAsync(chunks)).toEqual([])
  })

  test.each([
    { owner: 'owned', what: 'stay the reader’s' },
    { owner: 'borrowed', what: 'are right until the next is asked for' },
  ] as const)('chunks that are $owner $what', async ({ owner }) => {
    const [id, bytes] = [randomUUID(), randomBytes(2_000_000)]
    await blobs.write(id, chunksOf(bytes), bytes.length)
    const range = { start: 1, end: bytes.length - 2 }
    const kept: Buffer[] = []
    for await (const chunk of blobs.read(id, range, owner)) kept.push(owner === 'borrowed' ? Buffer.from(chunk) : chunk)
    expect(Buffer.concat(kept).equals(bytes.subarray(1, -1))).toBe(true)
  })

  test('that are shorter than the range are a BadGateway, after what there is', async () => {
    const [id, bytes] = [randomUUID(), randomBytes(300_000)]
    await blobs.write(id, chunksOf(bytes), bytes.length)
    let read = 0
    const reading = async () => {
      for await (const chunk of blobs.read(id, { start: 0, end: bytes.length }, 'borrowed')) read += chunk.length
    }
    await expect(reading()).rejects.toMatchObject({ status: 502 })
    expect(read).toBe(bytes.length)
  })

  test('many at once do not mix', async () => {
    const all = Array.from({ length: 30 }, () => [randomUUID(), randomBytes(100_000)] as const)
    await Promise.all(all.map(([id, bytes]) => blobs.write(id, chunksOf(bytes), bytes.length)))
    const read = await Promise.all(all.map(([id, bytes]) => buffer(blobs.read(id, whole(bytes), 'owned'))))
    expect(read.every((bytes, n) => all[n]?.[1].equals(bytes))).toBe(true)
  })
})

describe('what is written to an S3 server', () => {
  /** A server that stores what is PUT, and a function that opens a driver on it. */
  async function startStore() {
    const stored = new Map<string, Buffer>()
    const server = createServer((incoming, outgoing) => {
      void buffer(incoming).then((body) => {
        stored.set(incoming.url?.split('?')[0]?.split('/').at(-1) ?? '', body)
        return outgoing.end()
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const blobs = await openBlobs(`s3://key:secret@bucket?endpoint=http://127.0.0.1:${port}`)
    onTestFinished(() => {
      blobs.close()
      server.close()
    })
    return { blobs, stored }
  }

  test.each([
    { length: 'declared', isDeclared: true },
    { length: 'not known', isDeclared: false },
  ])(
    'is freed chunk by chunk as it leaves where it is given, its length $length, and what else lies in a buffer stays',
    async (form) => {
      const { blobs, stored } = await startStore()
      const chunks = Array.from({ length: 60 }, () => randomBytes(65_536))
      const shared = Buffer.allocUnsafeSlow(100_000).fill('s')
      const sent = Buffer.concat([...chunks, shared.subarray(0, 50_000)])
      let heldMax = 0
      async function* source() {
        for (const [n, chunk] of chunks.entries()) {
          heldMax = Math.max(heldMax, chunks.slice(0, n).filter(({ length }) => length > 0).length)
          yield chunk
        }
        yield shared.subarray(0, 50_000)
      }
      const id = randomUUID()
      await blobs.write(id, source(), form.isDeclared ? sent.length : undefined, 'owned')
      expect(stored.get(id)?.equals(sent)).toBe(true)
      // No more chunks than the connection accepts before it exerts backpressure.
      expect(heldMax).toBeLessThan(10)
      expect(chunks.filter(({ length }) => length > 0)).toEqual([])
      expect(shared.equals(Buffer.alloc(100_000, 's'))).toBe(true)

      const kept = randomBytes(65_536)
      await blobs.write(id, chunksOf(kept), form.isDeclared ? kept.length : undefined)
      expect(stored.get(id)?.equals(kept)).toBe(true)
    },
  )
})

describe('blobs of a folder outlast a loss of power', () => {
  /**
   * Files and folders in the order in which their syncs ended. isSlow: selects syncs that are delayed long enough for a write
   * that does not wait for them to finish first.
   */
  async function watchSyncs(
    isSlow: (name: 'sync' | 'datasync', ino: number) => boolean,
  ): Promise<{ ino: number; size: number }[]> {
    const synced: { ino: number; size: number }[] = []
    const handle = await open(tmpdir())
    const prototype = Object.getPrototypeOf(handle) as FileHandle
    await handle.close()
    for (const name of ['sync', 'datasync'] as const) {
      const original: () => Promise<void> = Reflect.get(prototype, name)
      vi.spyOn(prototype, name).mockImplementation(async function (this: FileHandle) {
        const { ino, size } = await this.stat()
        await original.call(this)
        if (isSlow(name, ino)) await sleep(100)
        synced.push({ ino, size })
      })
    }
    onTestFinished(() => void vi.restoreAllMocks())
    return synced
  }
  /** The folders from the parent of the store's root down to the one that holds the blob. */
  const foldersOf = (parent: string, id: string) =>
    ['', 'objects', `objects/${id.slice(-2)}`, `objects/${id.slice(-2)}/${id.slice(-4, -2)}`].map((path) =>
      join(parent, path),
    )
  const inoOf = async (path: string) => (await stat(path)).ino
  const idLike = (end: string) => randomUUID().slice(0, -end.length) + end

  test('once they are written: their bytes, their name, and the folders that had to be made, each once', async () => {
    const parent = await newFolder()
    const blobs = await openBlobs(pathToFileURL(join(parent, 'objects')).href)
    const synced = await watchSyncs((name) => name === 'datasync')
    const write = async (id: string) => {
      synced.length = 0
      await blobs.write(id, chunksOf(randomBytes(300_000)), 300_000)
      return [...synced]
    }
    const [first, second] = [idLike('cdab'), idLike('cdab')]
    const [afterFirst, afterSecond] = [await write(first), await write(second)]
    const folders = await Promise.all(foldersOf(parent, first).map(inoOf))
    const leaf = foldersOf(parent, first).at(-1) ?? ''
    const sorted = (inos: number[]) => inos.toSorted((a, b) => a - b)
    expect(sorted(afterFirst.map(({ ino }) => ino))).toEqual(sorted([...folders, await inoOf(join(leaf, first))]))
    const file = await inoOf(join(leaf, second))
    expect(sorted(afterSecond.map(({ ino }) => ino))).toEqual(sorted([folders.at(-1) ?? 0, file]))
    expect(afterSecond.find(({ ino }) => ino === file)?.size).toBe(300_000)
  })

  test('also where another writer is still making the folders that they share', async () => {
    const parent = await newFolder()
    const blobs = await openBlobs(pathToFileURL(join(parent, 'objects')).href)
    const parentIno = await inoOf(parent)
    const synced = await watchSyncs((_, ino) => ino === parentIno)
    const ids = ['cdab', 'cdab', 'efab', '1234'].map(idLike)
    const durable = await Promise.all(
      ids.map(async (id) => {
        await blobs.write(id, chunksOf(Buffer.from('x')), 1)
        return synced.map(({ ino }) => ino)
      }),
    )
    for (const [n, id] of ids.entries())
      expect(durable[n]).toEqual(expect.arrayContaining(await Promise.all(foldersOf(parent, id).map(inoOf))))
  })
})

describe('a store that fails', () => {
  test('a folder that cannot be written is a BadGateway, and leaves nothing', async () => {
    const folder = await newFolder()
    const blobs = await openBlobs(pathToFileURL(join(folder, 'file', 'below')).href)
    await writeFile(join(folder, 'file'), '')
    await expect(blobs.write(randomUUID(), chunksOf(Buffer.from('x')), 1)).rejects.toMatchObject({ status: 502 })
    await expect(blobs.check()).rejects.toMatchObject({ code: 'ENOTDIR' })
    expect(await readdir(folder)).toEqual(['file'])
    await symlink('loop', join(folder, 'loop'))
    const loop = await openBlobs(pathToFileURL(join(folder, 'loop')).href)
    await expect(loop.check()).rejects.toMatchObject({ code: 'ELOOP' })
  })

  test('an S3 server that is away, refuses or hangs is a BadGateway (D22)', async () => {
    const away = await openBlobs('s3://key:secret@bucket?endpoint=http://127.0.0.1:1')
    await expect(away.check()).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    await expect(away.write(randomUUID(), chunksOf(Buffer.from('x')), 1)).rejects.toMatchObject({ status: 502 })
    let status = 403
    const server = createServer((incoming, outgoing) => {
      incoming.resume()
      outgoing.writeHead(status).end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const refusing = await openBlobs(`s3://key:secret@bucket?endpoint=http://127.0.0.1:${port}`)
    await expect(refusing.write(randomUUID(), chunksOf(Buffer.from('x')), 1)).rejects.toMatchObject({ status: 502 })
    await expect(refusing.check()).rejects.toThrow('The S3 server answers 403')
    await expect(refusing.remove([randomUUID()])).rejects.toMatchObject({ status: 502 })
    await expect(buffer(refusing.read(randomUUID(), { start: 0, end: 0 }, 'owned'))).rejects.toMatchObject({
      status: 502,
    })
    status = 404 // of a bucket that the first write makes
    await refusing.check()
    server.close()
    for (const blobs of [away, refusing]) blobs.close()
  })
})
