// engines: s3
import { execFileSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { unless } from '@platform/test-runner/task-meta'
import { DeleteObjectsCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3'
import { newObjectsUrl } from '@platform/testkit/objects'
import { expect, inject, onTestFinished, test } from 'vitest'
import { collectGarbage } from '../src/areas/storage/objects/maintenance/collect-garbage.ts'
import { blobCandidates } from '../src/areas/storage/objects/table.ts'
import { verifyStorage } from '../src/areas/storage/objects/maintenance/verify-storage.ts'
import { storageProcess } from './storage-process.ts'

/** A file system of a few mebibytes; undefined where this user may not mount one. */
function mountSmall(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'platform-small-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=6m', 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    rmSync(folder, { recursive: true })
    return undefined
  }
  onTestFinished(() => {
    execFileSync('umount', ['-l', folder])
    rmSync(folder, { recursive: true })
  })
  return folder
}
const canMount = process.getuid?.() === 0

const statusOf = (sent: Promise<unknown>): Promise<number> =>
  sent.then(
    () => 200,
    (error: { $metadata?: { httpStatusCode?: number } }) => error.$metadata?.httpStatusCode ?? 0,
  )

test(
  'a full disk is a 502, loses nothing, and is over when there is room again (D22)',
  unless(canMount ? undefined : 'mounting needs root'),
  async (context) => {
    const folder = mountSmall()
    if (folder === undefined) return context.skip('this system lets nobody mount')
    let ahead = 0
    const { deps, bucket, s3, start, origin, token } = await storageProcess(pathToFileURL(folder).href, {
      now: () => new Date(Date.now() + ahead),
    })
    await start()
    const Bucket = bucket.name
    const kept = new Map<string, Buffer>()
    const put = async (Key: string, Body: Buffer) => {
      const status = await statusOf(s3.send(new PutObjectCommand({ Bucket, Key, Body })))
      if (status === 200) kept.set(Key, Body)
      return status
    }
    const statuses = []
    for (let n = 0; n < 8; n++) statuses.push(await put(`large-${n}`, randomBytes(1_000_000)))
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(3)
    expect(new Set(statuses.filter((status) => status !== 200))).toEqual(new Set([502]))
    expect(await put('small', randomBytes(1_000))).toBe(200) // has no file

    // The same through the other door.
    const headers = { 'tus-resumable': '1.0.0', authorization: `Bearer ${await token()}` }
    const encoded = (text: string) => Buffer.from(text).toString('base64')
    const made = await fetch(`${origin}/files`, {
      method: 'POST',
      headers: {
        ...headers,
        'upload-length': '2000000',
        'upload-metadata': `bucket ${encoded(Bucket)},key ${encoded('tus')}`,
      },
    })
    const location = made.headers.get('location') ?? ''
    const content = randomBytes(2_000_000)
    const append = () =>
      fetch(location, {
        method: 'PATCH',
        headers: { ...headers, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
        body: new Uint8Array(content),
      })
    expect((await append()).status).toBe(502)

    const readAll = async () => {
      for (const [Key, bytes] of kept) {
        const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }))
        expect(Buffer.from((await Body?.transformToByteArray()) ?? []).equals(bytes)).toBe(true)
      }
      const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }))
      expect(Contents.map(({ Key }) => Key)).toEqual([...kept.keys()].toSorted())
    }
    await readAll()

    const gone = ['large-0', 'large-1', 'large-2']
    await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: gone.map((Key) => ({ Key })) } }))
    for (const name of gone) kept.delete(name)
    await deps.db.execute('delete from objects where deleted_at is not null')
    // The service collects too, and of two at the same time one leaves it to the other.
    const left = async () => {
      await collectGarbage(deps)
      return deps.db.$count(blobCandidates)
    }
    await expect.poll(left).toBe(0)
    ahead = 4_000_000
    await collectGarbage(deps)
    expect((await append()).status).toBe(204)
    kept.set('tus', content)
    await readAll()
    expect((await verifyStorage(deps)).damaged).toEqual([])
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    expect(files.length).toBe(kept.size - 1)
  },
)

/** A way to a server that can be cut, and mended again. */
async function cuttable(target: URL) {
  const sockets = new Set<Socket>()
  let isCut = false
  const server = createServer((socket) => {
    if (isCut) return void socket.destroy()
    const upstream = connect(Number(target.port), target.hostname)
    for (const end of [socket, upstream]) {
      sockets.add(end)
      end.on('error', () => {})
      end.on('close', () => sockets.delete(end))
    }
    socket.pipe(upstream).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}`,
    cut(state: boolean) {
      isCut = state
      if (state) for (const socket of sockets) socket.destroy()
    },
  }
}

test(
  'with the S3 server stopped under load answers are 502, and right again once it is back (D22)',
  unless(inject('testServers').s3Url === undefined ? 'no S3 server: TEST_S3_URL' : undefined),
  async () => {
    const url = new URL((await newObjectsUrl()).url)
    const way = await cuttable(new URL(url.searchParams.get('endpoint') ?? ''))
    url.searchParams.set('endpoint', way.url)
    const { deps, bucket, s3, start, deliveredAt } = await storageProcess(url.href)
    await start()
    const Bucket = bucket.name
    const kept = new Map<string, Buffer>()
    const seen = new Set<number>()
    const over = new AbortController()
    const work = async () => {
      while (!over.signal.aborted) {
        const [Key, Body] = [randomUUID(), randomBytes(100_000)]
        const status = await statusOf(s3.send(new PutObjectCommand({ Bucket, Key, Body })))
        seen.add(status)
        if (status === 200) kept.set(Key, Body)
      }
    }
    const working = Array.from({ length: 4 }, work)
    const until = async (isSo: () => boolean) => {
      for (const deadline = Date.now() + 20_000; Date.now() < deadline && !isSo();)
        await new Promise((resolve) => setImmediate(resolve))
      expect(isSo()).toBe(true)
    }
    await until(() => kept.size > 20)
    way.cut(true)
    await until(() => seen.has(502))
    const [known] = kept
    const getKnown = () => s3.send(new GetObjectCommand({ Bucket, Key: known?.[0] }))
    expect(await statusOf(getKnown())).toBe(502)
    expect((await fetch(`${deliveredAt}/${known?.[0]}`)).status).toBe(502)
    way.cut(false)
    const before = kept.size
    await until(() => kept.size > before + 20)
    over.abort()
    await Promise.all(working)
    expect([...seen].filter((status) => status !== 200 && status !== 502)).toEqual([])
    for (const [Key, bytes] of kept) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }))
      expect(Buffer.from((await Body?.transformToByteArray()) ?? []).equals(bytes)).toBe(true)
    }
    expect((await verifyStorage(deps)).damaged).toEqual([])
  },
)
