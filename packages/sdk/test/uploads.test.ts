import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { unless } from '@platform/test-runner/task-meta'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { runClient } from '../../../services/api/test/client-process.ts'
import { newOwner } from '../../../services/api/test/scenario.ts'
import { apiKey, createApiKey, createBucket, Platform, PlatformError, staticToken } from '../src/index.ts'
import { deployArchive, DeploymentFailed, type ObjectUpload, uploadObject } from '../src/uploads/index.ts'
import { content, sha256 } from './content.ts'
import { type Behaviour, json, type Received, startHostileServer } from './hostile-server.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0.1))
afterEach(() => void vi.restoreAllMocks())

/** A service in this process, for what neither ends nor measures it. */
let server: TestPlatform
/** In it: a key and a bucket. */
let key: { id: string; secret: string }
let place: { applicationId: string; environment: string; bucket: string }
beforeAll(async () => {
  server = await startPlatform()
  const { token, applicationId } = await newOwner(server)
  const user = new Platform({ baseUrl: server.apiUrl, credential: staticToken(token) })
  const scopes = ['network:storage:read', 'network:storage:write']
  key = await createApiKey(user, { body: { name: 'uploads', applicationId, scopes } })
  place = { applicationId, environment: 'production', bucket: 'media' }
  await createBucket(user, { applicationId, environment: 'production', body: { name: 'media' } })
})
afterAll(() => server.close())
const newPlatform = () => new Platform({ baseUrl: server.apiUrl, credential: apiKey(key) })

test('an upload is gone on with by another Platform, an empty one is stored, and a stream needs its length and hash', async () => {
  const platform = newPlatform()
  const data = content(9_000_000)
  const leaving = new AbortController()
  const reason = new Error('enough')
  let begun: ObjectUpload['resume']
  const first = uploadObject(platform, {
    ...place,
    key: 'resumed',
    data: new Blob([data]),
    signal: leaving.signal,
    onBegun: (upload) => (begun = upload),
    onProgress: () => leaving.abort(reason),
  })
  await expect(first).rejects.toBe(reason)
  const sent: number[] = []
  const object = await uploadObject(newPlatform(), {
    ...place,
    key: 'resumed',
    data,
    ...(begun && { resume: begun }),
    onProgress: ({ sentBytes }) => sent.push(sentBytes),
  })
  expect(object.checksumSha256).toBe(sha256(data))
  expect(sent).toEqual([9_000_000])

  const empty = await uploadObject(platform, {
    ...place,
    key: 'empty',
    data: new Uint8Array(0),
    contentType: 'text/plain',
  })
  expect(empty).toMatchObject({
    contentLength: 0,
    contentType: 'text/plain',
    checksumSha256: sha256(new Uint8Array(0)),
  })

  const streamed = await uploadObject(platform, {
    ...place,
    key: 'streamed',
    data: new Blob([data]).stream(),
    contentLength: data.length,
    checksumSha256: sha256(data),
  })
  expect(streamed.checksumSha256).toBe(sha256(data))

  const wrong = uploadObject(platform, { ...place, key: 'wrong', data: content(40), checksumSha256: sha256(data) })
  await expect(wrong).rejects.toBeInstanceOf(PlatformError)
})

test('an upload that has ended is an error that says so', async () => {
  const leaving = new AbortController()
  let begun: ObjectUpload['resume']
  const upload = { ...place, key: 'late', data: content(40) }
  const onBegun = (told: ObjectUpload['resume']) => {
    begun = told
    leaving.abort()
  }
  await expect(uploadObject(newPlatform(), { ...upload, signal: leaving.signal, onBegun })).rejects.toThrow('aborted')
  server.clock.advance(8 * 86_400_000)
  await expect(uploadObject(newPlatform(), { ...upload, resume: begun })).rejects.toMatchObject({
    status: 410,
    message: 'The upload of late has ended: begin it anew',
  })
})

test('a stream without its length and hash is refused before a request', async () => {
  const { platform, requests, exchanges } = await startHostileServer([json(500, {})])
  const upload = {
    applicationId: 'a',
    environment: 'production',
    bucket: 'b',
    key: 'k',
    data: new Blob(['x']).stream(),
  }
  for (const more of [{}, { contentLength: 1 }, { checksumSha256: 'x' }])
    await expect(uploadObject(platform, { ...upload, ...more })).rejects.toThrow('contentLength and checksumSha256')
  await expect(uploadObject(platform, { ...upload, file: 'x' } as never)).rejects.toThrow('"file"')
  expect([requests, exchanges]).toEqual([[], []])
})

test(
  '256 MB of a file go up while the process grows by less than 100 MB',
  unless(process.platform === 'linux' ? undefined : 'it reads /proc of Linux'),
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'upload-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const path = join(folder, 'file')
    await writeFile(path, 'the beginning of many zeros')
    await truncate(path, 256_000_000)
    const program = fileURLToPath(new URL('upload-process.ts', import.meta.url))
    const printed = await runClient(
      process.execPath,
      [program, JSON.stringify({ baseUrl: server.apiUrl, key, place, path })],
      {},
    )
    const { growth, contentLength } = JSON.parse(printed) as { growth: number; contentLength: number }
    expect(contentLength).toBe(256_000_000)
    expect(growth).toBeLessThan(100_000_000)
  },
)

/** Stands in for the control plane: a deployment is created, takes its parts by `part`, and ends as the statuses say. */
function controlPlane(part: Behaviour, ends: { status: string; failureReason: string | null }): Behaviour {
  const deployment = { id: 'd', ...ends }
  const answers: Record<string, (request: Received) => Behaviour> = {
    '/deployments': () => json(201, { ...deployment, status: 'PENDING' }),
    '/deployments/d': () => json(200, deployment),
    '/deployments/d/upload/start': () => json(200, { uploadId: 'u' }),
    '/deployments/d/upload/part': ({ headers, body }) => {
      const { partNumber } = JSON.parse(String(body)) as { partNumber: number }
      return json(200, { url: `http://${headers.host}/files/${partNumber}` })
    },
    '/deployments/d/upload/complete': () => (response) => response.writeHead(204).end(),
    '/deployments/d/logs/stream': () => (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let n = 0; n < 25; n += 1)
        response.write(`id: ${n}\nevent: log\ndata: {"id":"${n}","message":"line ${n}","type":"INFO"}\n\n`)
      response.end('event: end\ndata: {}\n\n')
    },
  }
  return (response, request) => (answers[request.path]?.(request) ?? part)(response, request)
}
const active = { status: 'ACTIVE', failureReason: null }
const partsOf = (requests: Received[]) => requests.filter(({ method }) => method === 'PUT')

test('parts of 10 MB go three at a time, and a part that is refused or whose URL has ended is sent again by itself', async () => {
  const data = content(52_000_000)
  let [open, most] = [0, 0]
  const refusals = new Map<string, Behaviour[]>([
    ['/files/2', [json(503, { error: 'away' }), (response) => void response.socket?.resetAndDestroy()]],
    ['/files/5', [json(403, { error: 'The URL has expired; ask for a new one' })]],
  ])
  const part: Behaviour = (response, request) => {
    const refusal = refusals.get(request.path)?.shift()
    if (refusal) return refusal(response, request)
    most = Math.max(most, (open += 1))
    // Answers wait until all that may be sent at once are there.
    return setImmediate(() => {
      open -= 1
      response.writeHead(200, { etag: `"${request.path}"` }).end()
    })
  }
  const { platform, requests } = await startHostileServer([controlPlane(part, active)])
  const sent: number[] = []
  await deployArchive(platform, {
    deployment: { applicationId: 'a' },
    archive: new Blob([data]).stream(),
    onProgress: (progress) => void (progress.step === 'sent' && sent.push(progress.sentBytes)),
  })
  const received = Map.groupBy(partsOf(requests), ({ path }) => path)
  const byPath = [...received].toSorted(([a], [b]) => a.localeCompare(b))
  expect(byPath.map(([path, each]) => [path, each.length])).toEqual([
    ['/files/1', 1],
    ['/files/2', 3],
    ['/files/3', 1],
    ['/files/4', 1],
    ['/files/5', 2],
    ['/files/6', 1],
  ])
  const bytes = Buffer.concat(byPath.map(([, each]) => each.at(-1)?.body ?? Buffer.alloc(0)))
  expect(sha256(bytes)).toBe(sha256(data))
  expect(sent.at(-1)).toBe(data.length)
  const urls = requests
    .filter(({ path }) => path.endsWith('/part'))
    .map(({ body }) => JSON.parse(String(body)) as object)
  expect(urls).toHaveLength(7)
  const completed = requests.find(({ path }) => path.endsWith('/complete'))
  expect(JSON.parse(String(completed?.body))).toEqual({
    uploadId: 'u',
    parts: Array.from({ length: 6 }, (_, n) => ({ partNumber: n + 1, etag: `"/files/${n + 1}"` })),
  })
})

test('the fourth part waits for one of three that are under way', async () => {
  const held: (() => void)[] = []
  const arrived = Promise.withResolvers<void>()
  const part: Behaviour = (response) => {
    held.push(() => response.writeHead(200, { etag: '"e"' }).end())
    if (held.length === 3) arrived.resolve()
  }
  const { platform, requests } = await startHostileServer([controlPlane(part, active)])
  let read = 0
  const archive = new ReadableStream<Uint8Array>({
    pull(controller) {
      read += 1
      if (read > 60) return controller.close()
      return controller.enqueue(new Uint8Array(1_000_000))
    },
  })
  const deploying = deployArchive(platform, { deployment: { applicationId: 'a' }, archive })
  await arrived.promise
  await vi.waitFor(() => expect(read).toBeGreaterThanOrEqual(40), 60_000)
  expect(partsOf(requests)).toHaveLength(3)
  expect(read).toBeLessThan(45)
  const answering = setInterval(() => held.shift()?.(), 1)
  await deploying
  clearInterval(answering)
  expect(partsOf(requests)).toHaveLength(6)
})

test('a deployment that fails is an error with its reason and its last 20 lines', async () => {
  const part: Behaviour = (response) => response.writeHead(200, { etag: '"e"' }).end()
  const failed = { status: 'FAILED', failureReason: 'The archive holds no files' }
  const { platform } = await startHostileServer([controlPlane(part, failed)])
  const error: unknown = await deployArchive(platform, {
    deployment: { applicationId: 'a' },
    archive: new Blob(['zip']).stream(),
  }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(DeploymentFailed)
  expect(error).toMatchObject({ message: 'The archive holds no files', deployment: failed, lines: { length: 20 } })
})
