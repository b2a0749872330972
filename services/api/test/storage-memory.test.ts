// engines: s3
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { unless } from '@platform/test-runner/task-meta'
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { newObjectsUrl } from '@platform/testkit/objects'
import { isDrill } from '@platform/testkit/test-environment'
import { expect, onTestFinished, test } from 'vitest'
import { watchMemory } from './peak-memory.ts'
import { storageProcess } from './storage-process.ts'

const BYTES = isDrill ? 5_000_000_000 : 300_000_000
/** Above what the process holds before: 12 to 25 MB here, of 300 MB as of 2 GB. */
const GROWTH_BYTES_MAX = 60_000_000
const CHUNK = Buffer.alloc(1_000_000, 'flat memory ')

function* bytes(): Generator<Buffer> {
  for (let left = BYTES; left > 0; left -= CHUNK.length) yield CHUNK.subarray(0, Math.min(left, CHUNK.length))
}
async function lengthOf(stream: AsyncIterable<Uint8Array>): Promise<number> {
  let length = 0
  for await (const chunk of stream) length += chunk.length
  return length
}
test(
  `${BYTES} bytes go up and down through each interface in flat memory`,
  { timeout: 1_800_000, ...unless(process.platform === 'linux' ? undefined : 'it reads /proc of Linux') },
  async () => {
    const { url } = await newObjectsUrl()
    if (url.startsWith('file:')) onTestFinished(() => rm(fileURLToPath(url), { recursive: true, force: true }))
    const { bucket, s3, start, origin, token, deliveredAt } = await storageProcess(url)
    const { child } = await start()
    const growth = watchMemory(child.pid ?? 0)
    const Bucket = bucket.name

    await s3.send(
      new PutObjectCommand({
        Bucket,
        Key: 's3',
        Body: Readable.from(bytes(), { objectMode: false }),
        ContentLength: BYTES,
      }),
    )
    expect(growth()).toBeLessThan(GROWTH_BYTES_MAX)

    const encoded = (text: string) => Buffer.from(text).toString('base64')
    const headers = { 'tus-resumable': '1.0.0', authorization: `Bearer ${await token()}` }
    const made = await fetch(`${origin}/files`, {
      method: 'POST',
      headers: {
        ...headers,
        'upload-length': String(BYTES),
        'upload-metadata': `bucket ${encoded(Bucket)},key ${encoded('tus')}`,
      },
    })
    const patch = request(made.headers.get('location') ?? '', {
      method: 'PATCH',
      headers: {
        'tus-resumable': '1.0.0',
        'content-type': 'application/offset+octet-stream',
        'content-length': BYTES,
        'upload-offset': 0,
      },
    })
    const answered = once(patch, 'response') as Promise<[IncomingMessage]>
    await pipeline(Readable.from(bytes(), { objectMode: false }), patch)
    expect((await answered)[0].statusCode).toBe(204)
    expect(growth()).toBeLessThan(GROWTH_BYTES_MAX)

    for (const Key of ['s3', 'tus']) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }))
      expect(await lengthOf(Body as Readable)).toBe(BYTES)
      const delivered = await fetch(`${deliveredAt}/${Key}`)
      expect(await lengthOf(delivered.body as AsyncIterable<Uint8Array>)).toBe(BYTES)
    }
    expect(growth()).toBeLessThan(GROWTH_BYTES_MAX)
  },
)
