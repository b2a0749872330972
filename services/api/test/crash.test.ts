// engines: postgres, s3
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { newObjectsUrl } from '@platform/testkit/objects'
import { isDrill } from '@platform/testkit/test-environment'
import { expect, onTestFinished, test } from 'vitest'
import { collectGarbage } from '../src/areas/storage/objects/maintenance/collect-garbage.ts'
import { blobs } from '../src/areas/storage/objects/table.ts'
import { verifyStorage } from '../src/areas/storage/objects/maintenance/verify-storage.ts'
import { openDice } from './dice.ts'
import { storageProcess } from './storage-process.ts'

const ROUNDS = isDrill ? 200 : 6
const WORKERS = 6

/** What a key may hold: the hash of its content, or nothing. */
type Content = string | null
/** What one worker has been told of one of its keys, and what it had asked for last without an answer. */
interface Known {
  told: Content
  asked: Content[]
}
const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

test(
  `what was acknowledged survives kill -9, ${ROUNDS} times under load (storage.md)`,
  { timeout: 3_600_000 },
  async () => {
    const { url } = await newObjectsUrl('folder')
    const folder = fileURLToPath(url)
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    let ahead = 0
    const { deps, application, bucket, origin, s3, start, token } = await storageProcess(url, {
      now: () => new Date(Date.now() + ahead),
    })

    const known = new Map<string, Known>()
    const uploads = new Map<string, number>()
    const of = (name: string): Known => {
      const state = known.get(name) ?? { told: null, asked: [] }
      known.set(name, state)
      return state
    }
    /** Sends a change; what is answered is told, what is not may have happened or not. */
    async function change(name: string, content: Content, send: () => Promise<unknown>): Promise<void> {
      const state = of(name)
      state.asked.push(content)
      await send()
      Object.assign(state, { told: content, asked: [] })
    }
    const Bucket = bucket.name
    const dice = openDice()
    const small = () => randomBytes(dice.integer(1, 9_000))
    const large = () => randomBytes(dice.integer(17_000, 400_000))

    const put = (name: string, Body: Buffer) =>
      change(name, hashOf(Body), () => s3.send(new PutObjectCommand({ Bucket, Key: name, Body })))
    const remove = (name: string) => change(name, null, () => s3.send(new DeleteObjectCommand({ Bucket, Key: name })))

    async function multipart(name: string): Promise<void> {
      const parts = [randomBytes(5 * 1_048_576), small()]
      const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: name }))
      const Parts = []
      for (const [n, Body] of parts.entries()) {
        const { ETag } = await s3.send(new UploadPartCommand({ Bucket, Key: name, UploadId, PartNumber: n + 1, Body }))
        Parts.push({ PartNumber: n + 1, ETag })
      }
      const complete = new CompleteMultipartUploadCommand({ Bucket, Key: name, UploadId, MultipartUpload: { Parts } })
      await change(name, hashOf(Buffer.concat(parts)), () => s3.send(complete))
    }

    async function resumable(name: string, bearer: string): Promise<void> {
      const content = large()
      const half = Math.floor(content.length / 2)
      const encoded = (text: string) => Buffer.from(text).toString('base64')
      const headers = { 'tus-resumable': '1.0.0', authorization: `Bearer ${bearer}` }
      const made = await fetch(`${origin}/files`, {
        method: 'POST',
        headers: {
          ...headers,
          'upload-length': String(content.length),
          'upload-metadata': `bucket ${encoded(Bucket)},key ${encoded(name)}`,
        },
      })
      const location = made.headers.get('location') ?? ''
      const patch = async (from: number, to: number) => {
        const answer = await fetch(location, {
          method: 'PATCH',
          headers: { ...headers, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(from) },
          body: new Uint8Array(content.subarray(from, to)),
        })
        if (answer.status !== 204) throw new Error(`PATCH answered ${answer.status}`)
        uploads.set(location, to)
      }
      await patch(0, half)
      await change(name, hashOf(content), () => patch(half, content.length))
      uploads.delete(location)
    }

    /** Removes an object and brings it back, by the REST API. */
    async function restore(name: string, bearer: string): Promise<void> {
      const { told, asked: options } = of(name)
      if (told === null || options.length > 0) return
      const path = `${origin}/applications/${application.id}/storage/buckets/${Bucket}`
      const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' }
      await remove(name)
      await change(name, told, async () => {
        const answer = await fetch(`${path}/trash/restore`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ prefix: name }),
        })
        const { restoredCount } = (await answer.json()) as { restoredCount: number }
        if (answer.status !== 200 || restoredCount !== 1) throw new Error(`Restored ${restoredCount}: ${answer.status}`)
      })
    }

    async function work(worker: number, over: AbortSignal): Promise<void> {
      const bearer = await token()
      while (!over.aborted) {
        // Names of one length, so that none is the prefix of another.
        const name = `${worker}/${dice.integer(10, 20)}`
        // A key that nobody has answered for is left alone until it was looked at.
        if (of(name).asked.length > 0) continue
        const choice = dice.integer(0, 10)
        if (choice < 4) await put(name, small())
        else if (choice < 6) await put(name, large())
        else if (choice < 7) await multipart(name)
        else if (choice < 8) await resumable(name, bearer)
        else if (choice < 9) await restore(name, bearer)
        else await remove(name)
      }
    }

    async function contentOf(name: string): Promise<Content> {
      try {
        const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: name }))
        return hashOf((await Body?.transformToByteArray()) ?? new Uint8Array())
      } catch (error) {
        if ((error as Error).name === 'NoSuchKey') return null
        throw error
      }
    }

    /** Everything is as it was told, or as it was asked for last; a list shows what can be read, and nothing else. */
    async function look(): Promise<void> {
      const listed = new Set<string>()
      for (let ContinuationToken: string | undefined; ;) {
        const page = await s3.send(new ListObjectsV2Command({ Bucket, ContinuationToken }))
        for (const { Key = '' } of page.Contents ?? []) listed.add(Key)
        ContinuationToken = page.NextContinuationToken
        if (!ContinuationToken) break
      }
      for (const [name, state] of known) {
        const row = await contentOf(name)
        expect([state.told, ...state.asked], `${name} after the crash`).toContain(row)
        expect([name, listed.has(name)]).toEqual([name, row !== null])
        Object.assign(state, { told: row, asked: [] })
        listed.delete(name)
      }
      expect([...listed]).toEqual([])
      for (const [location, offset] of uploads) {
        const head = await fetch(location, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } })
        expect(Number(head.headers.get('upload-offset'))).toBeGreaterThanOrEqual(offset)
      }
      uploads.clear()
    }

    let acknowledged = 0
    for (let round = 0; round < ROUNDS; round++) {
      const service = await start()
      await look()
      const over = new AbortController()
      const working = Array.from({ length: WORKERS }, (_, n) => work(n, over.signal).catch(() => {}))
      await sleep(dice.integer(200, 1_200))
      service.child.kill('SIGKILL')
      await once(service.child, 'exit')
      over.abort()
      await Promise.all(working)
      acknowledged += [...known.values()].filter(({ asked: options }) => options.length === 0).length
    }
    const service = await start()
    await look()
    expect(acknowledged).toBeGreaterThan(ROUNDS)

    const report = await verifyStorage(deps)
    expect([report.damaged, report.miscounted]).toEqual([[], []])
    service.child.kill('SIGTERM')
    await once(service.child, 'exit')
    // After a day nothing of what was broken off is left: every file is one that an object has.
    ahead = 90_000_000
    await collectGarbage(deps)
    ahead += 4_000_000
    await collectGarbage(deps)
    const rows = await deps.db.select({ id: blobs.id, state: blobs.state, content: blobs.content }).from(blobs)
    const kept = rows.filter(({ content }) => content === null)
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    const files = entries.flatMap((entry) => (entry.isFile() ? [entry.name] : []))
    expect(files.toSorted()).toEqual(kept.map(({ id }) => id).toSorted())
    expect(new Set(kept.map(({ state }) => state))).toEqual(new Set(['live']))
  },
)
