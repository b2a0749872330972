// engines: s3
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { unless } from '@platform/test-runner/task-meta'
import { newObjectsUrl } from '@platform/testkit/objects'
import { isDrill } from '@platform/testkit/test-environment'
import { expect, onTestFinished, test } from 'vitest'
import { ZipFile } from 'yazl'
import { activatePlan } from '../src/areas/tenancy/products/products.ts'
import { watchMemory } from './peak-memory.ts'
import { storageProcess } from './storage-process.ts'

const BYTES = isDrill ? 500_000_000 : 120_000_000
const FILE_BYTES = 95_000_000
const PART_BYTES = 10_000_000
/** Above what the process holds before: 23 to 31 MB here, 40 of 500 MB. */
const GROWTH_BYTES_MAX = 90_000_000

/** A site of large files that do not compress. Returns what they hash to, by path. */
async function makeArchive(file: string): Promise<Map<string, string>> {
  const zip = new ZipFile()
  const hashes = new Map<string, string>()
  const block = randomBytes(1_000_000)
  for (let n = 0; n * FILE_BYTES < BYTES; n++) {
    const content = Buffer.alloc(Math.min(FILE_BYTES, BYTES - n * FILE_BYTES))
    for (let offset = 0; offset < content.length; offset += block.length) block.copy(content, offset)
    content.writeUInt32LE(n)
    hashes.set(`video-${n}.mp4`, createHash('sha256').update(content).digest('hex'))
    zip.addBuffer(content, `video-${n}.mp4`, { compress: false })
  }
  zip.addBuffer(Buffer.from('<h1>Videos</h1>'), 'index.html')
  zip.end()
  await pipeline(zip.outputStream, createWriteStream(file))
  return hashes
}

test(
  `an archive of ${BYTES} bytes is deployed from parts that arrive three at a time and out of order, in flat memory`,
  { timeout: 600_000, ...unless(process.platform === 'linux' ? undefined : 'it reads /proc of Linux') },
  async () => {
    const { url } = await newObjectsUrl()
    if (url.startsWith('file:')) onTestFinished(() => rm(fileURLToPath(url), { recursive: true, force: true }))
    const folder = await mkdtemp(join(tmpdir(), 'archive-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const archive = join(folder, 'site.zip')
    const hashes = await makeArchive(archive)
    const { deps, organization, application, start, origin, token, edgePort } = await storageProcess(url)
    await activatePlan(deps, organization.id, 'network', 'pro')
    const { child } = await start()
    const growth = watchMemory(child.pid ?? 0)
    const bearer = { authorization: `Bearer ${await token()}` }
    const post = async (path: string, body: object = {}) => {
      const headers = { ...bearer, 'content-type': 'application/json' }
      const answer = await fetch(`${origin}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`${answer.status} ${text}`)
      return (text === '' ? {} : JSON.parse(text)) as Record<string, string>
    }
    const { id = '', hostname = '' } = await post('/deployments', { applicationId: application.id })
    const path = `/deployments/${id}/upload`
    const { uploadId } = await post(`${path}/start`)

    const file = await open(archive)
    onTestFinished(() => file.close())
    const count = Math.ceil((await stat(archive)).size / PART_BYTES)
    /** Sends a part; broken off in the middle where that is asked for. */
    async function send(partNumber: number, isBroken: boolean): Promise<string | undefined> {
      const { url: partUrl = '' } = await post(`${path}/part`, { uploadId, partNumber })
      const content = Buffer.alloc(PART_BYTES)
      const { bytesRead } = await file.read(content, 0, PART_BYTES, (partNumber - 1) * PART_BYTES)
      const sent = request(partUrl, { method: 'PUT', headers: { 'content-length': bytesRead } })
      if (isBroken) {
        sent.on('error', () => {})
        await new Promise((resolve) => sent.write(content.subarray(0, bytesRead >> 1), resolve))
        sent.destroy()
        return undefined
      }
      sent.end(content.subarray(0, bytesRead))
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      answer.resume()
      return answer.headers.etag
    }
    const waiting = Array.from({ length: count }, (_, n) => count - n)
    const parts: { partNumber: number; etag: string }[] = []
    await Promise.all(
      Array.from({ length: 3 }, async () => {
        for (let partNumber = waiting.shift(); partNumber !== undefined; partNumber = waiting.shift()) {
          if (partNumber === 4) await send(partNumber, true)
          parts.push({ partNumber, etag: (await send(partNumber, false)) ?? '' })
        }
      }),
    )
    await post(`${path}/complete`, { uploadId, parts })
    for (;;) {
      const answer = await fetch(`${origin}/deployments/${id}`, {
        headers: { authorization: `Bearer ${await token()}` },
      })
      const { status, failureReason } = (await answer.json()) as Record<string, string | null>
      if (status === 'FAILED') throw new Error(failureReason ?? '')
      if (status === 'ACTIVE') break
      await sleep(200)
    }
    for (const [name, hash] of hashes) {
      const clientRequest = request({
        host: 'localhost',
        port: edgePort,
        path: `/${name}`,
        headers: { host: hostname },
      }).end()
      const [answer] = (await once(clientRequest, 'response')) as [IncomingMessage]
      const digest = createHash('sha256')
      for await (const chunk of answer) digest.update(chunk as Buffer)
      expect([name, answer.statusCode, digest.digest('hex')]).toEqual([name, 200, hash])
    }
    expect(growth()).toBeLessThan(GROWTH_BYTES_MAX)
  },
)
