import { createHash } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy, type Deployed, giveHostname, makeCurrent } from './deploy.ts'
import { newOwner } from './scenario.ts'

const REQUESTS = 50_000
const CUT_OVERS = 100
const CONNECTIONS = 16
const SLOW_DOWNLOADS = 4
const FILM_BYTES = 24_000_000
const CHUNKS = 5

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const chunkOf = (name: string, n: number) => `assets/chunk-${n}.0a1b2c3d4e5f6a7${name === 'blue' ? 'b' : 'c'}.js`
/** Pages of different lengths, so that a mix of two would be found out by more than its words. */
const pageOf = (name: string) =>
  `<!doctype html><title>${name}</title>`.padEnd(name === 'blue' ? 2_000 : 3_000, `${name} `)
const filmOf = (name: string) => Buffer.alloc(FILM_BYTES, `${name} film `)

const filesOf = (name: string) => ({
  'index.html': pageOf(name),
  ...Object.fromEntries(Array.from({ length: CHUNKS }, (_, n) => [chunkOf(name, n), `chunk ${n} of ${name}`])),
  'film.bin': filmOf(name).toString(),
})

interface Got {
  status: number
  body: string
}

/** A connection that is kept alive: cheaper than any client library, which would be what is measured otherwise. */
class Connection {
  readonly #socket: Socket
  readonly #host: string
  #received: Buffer = Buffer.alloc(0)
  #wake = () => {}
  #failure: Error | undefined

  constructor(port: number, host: string) {
    this.#host = host
    this.#socket = connect(port, 'localhost')
    this.#socket.on('data', (chunk: Buffer) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    const fail = (error?: Error) => {
      this.#failure = error ?? new Error('The edge closed the connection')
      this.#wake()
    }
    this.#socket.on('error', fail).on('close', () => fail())
  }

  async get(path: string): Promise<Got> {
    this.#socket.write(`GET ${path} HTTP/1.1\r\nHost: ${this.#host}\r\n\r\n`)
    for (;;) {
      const end = this.#received.indexOf('\r\n\r\n')
      if (end !== -1) {
        const head = this.#received.toString('latin1', 0, end)
        const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN)
        if (this.#received.length >= end + 4 + length) {
          const body = this.#received.toString('utf8', end + 4, end + 4 + length)
          this.#received = this.#received.subarray(end + 4 + length)
          return { status: Number(head.slice(9, 12)), body }
        }
      }
      if (this.#failure) throw this.#failure
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  close(): void {
    this.#socket.destroy()
  }
}

/** Downloads the film over and over, slowly, until told to stop; answers how many came whole. */
async function downloadSlowly(port: number, host: string, stopping: AbortSignal, sums: ReadonlySet<string>) {
  let whole = 0
  while (!stopping.aborted) {
    const socket = connect(port, 'localhost')
    socket.write(`GET /film.bin HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    const hash = createHash('sha256')
    let head = Buffer.alloc(0)
    let isInBody = false
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      if (isInBody) hash.update(chunk)
      else {
        head = Buffer.concat([head, chunk])
        const end = head.indexOf('\r\n\r\n')
        isInBody = end !== -1
        if (isInBody) hash.update(head.subarray(end + 4))
      }
      if (!stopping.aborted) await sleep(5)
    }
    const sum = hash.digest('hex')
    if (!sums.has(sum)) throw new Error(`A slow download is neither of the films: ${head.toString('latin1', 0, 200)}`)
    whole++
  }
  return whole
}

test('a hundred cut-overs under load fail no request, mix no two deployments, and leave no page without its chunks', async () => {
  const owner = await newOwner(platform)
  const host = await giveHostname(platform, owner.applicationId)
  const names = ['blue', 'green'] as const
  const deployed = new Map<string, Deployed>()
  for (const name of names) deployed.set(name, await deploy(platform, owner, { files: filesOf(name) }))
  const port = Number(new URL(platform.edgeUrl).port)
  const ask = async () => {
    const connection = new Connection(port, host)
    const { body } = await connection.get('/')
    connection.close()
    return /<title>(\w+)/.exec(body)?.[1]
  }
  await expect.poll(ask).toBe('green')

  const stopping = new AbortController()
  const sums = new Set(names.map((name) => createHash('sha256').update(filmOf(name)).digest('hex')))
  const downloads = Array.from({ length: SLOW_DOWNLOADS }, () => downloadSlowly(port, host, stopping.signal, sums))

  const seen = { requests: 0, blue: 0, green: 0, strayChunks: 0 }
  const pages = { blue: pageOf('blue'), green: pageOf('green') }
  let live = 'green'
  const visitAll = async () => {
    const connection = new Connection(port, host)
    while (seen.requests < REQUESTS) {
      const page = await connection.get('/')
      seen.requests++
      const name = page.body === pages.blue ? 'blue' : 'green'
      if (page.status !== 200 || page.body !== pages[name])
        throw new Error(`A page is neither of the two: ${page.status} ${page.body.slice(0, 100)}`)
      seen[name]++
      for (let n = 0; n < CHUNKS; n++) {
        if (name !== live) seen.strayChunks++
        const chunk = await connection.get(`/${chunkOf(name, n)}`)
        seen.requests++
        if (chunk.status !== 200 || chunk.body !== `chunk ${n} of ${name}`)
          throw new Error(`Chunk ${n} of the page ${name} was ${chunk.status} ${chunk.body.slice(0, 100)}`)
      }
    }
    connection.close()
  }
  const visitors = Array.from({ length: CONNECTIONS }, visitAll)
  const watched = Promise.all(visitors)

  for (let n = 1; n <= CUT_OVERS; n++) {
    const position = (REQUESTS / (CUT_OVERS + 1)) * n
    while (seen.requests < position) await Promise.race([sleep(2), watched])
    const next = names[n % 2] ?? 'blue'
    const target = deployed.get(next)
    if (!target) throw new Error('No such deployment')
    live = next
    await makeCurrent(platform, target)
    const committedAt = performance.now()
    while ((await ask()) !== next) if (performance.now() - committedAt > 5_000) throw new Error('The edge did not hear')
  }
  await watched
  stopping.abort()
  const whole = await Promise.all(downloads)

  expect(seen.requests).toBeGreaterThanOrEqual(REQUESTS)
  expect(Math.min(seen.blue, seen.green)).toBeGreaterThan(1_000)
  expect(seen.strayChunks).toBeGreaterThan(0) // pages did outlive their deployment
  expect(whole.every((count) => count > 0)).toBe(true)
})
