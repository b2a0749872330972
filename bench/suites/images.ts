import { strictEqual } from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import sharp from 'sharp'
import { deployFiles } from '../deploy-files.ts'
import type { Lab } from '../lab.ts'
import { memoryOfServer } from '../process-costs.ts'
import type { Suite, Trial } from '../suite.ts'

/** 2 megapixels with detail everywhere, which is harder than a photograph. */
async function makePicture(): Promise<Buffer> {
  const pixels = Buffer.alloc(300 * 300 * 3)
  for (let n = 0; n < pixels.length; n++) pixels[n] = (n * 7 + ((n * n) % 251)) & 255
  return sharp(pixels, { raw: { width: 300, height: 300, channels: 3 } })
    .resize(1_600, 1_200, { fit: 'fill' })
    .jpeg()
    .toBuffer()
}

interface Answer {
  status: number
  body: Buffer
  cache: string | undefined
}

async function ask(origin: string, host: string, path: string): Promise<Answer> {
  const sent = request(origin + path, { headers: { host } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const body = Buffer.concat((await answer.toArray()) as Buffer[])
  return { status: answer.statusCode ?? 0, body, cache: answer.headers['x-cache'] as string | undefined }
}

const imagePath = (query: string, source = 'cat.jpg'): string => `/_platform/image/%2F${source}/cat?${query}`

/** At this many paths there is the same picture: an image of each is one that was never asked for. */
const PATHS = 6_000

/** Deploys a picture at many paths, and answers what asks for an image of one that was never asked for. */
async function prepareMisses(lab: Lab) {
  const platform = await lab.platform()
  const content = await makePicture()
  const paths = Array.from({ length: PATHS }, (_, n) => ({ path: `cat-${n}.jpg`, content, contentType: 'image/jpeg' }))
  const host = await deployFiles(lab, paths)
  const counts = new Map<string, number>()
  return {
    platform,
    async missOne(format: string, width: number): Promise<number> {
      const wish = `width=${width}&format=${format}`
      const n = counts.get(wish) ?? 0
      counts.set(wish, n + 1)
      const path = imagePath(wish, `cat-${n}.jpg`)
      const startedAt = performance.now()
      const { status, cache } = await ask(platform.edgeOrigin, host, path)
      if (status !== 200 || cache !== 'MISS') throw new Error(`${path} was answered with ${status} ${cache}`)
      return performance.now() - startedAt
    },
  }
}

export const imageHit: Suite = {
  name: 'image-hit',
  work: 'GET of an image that is in memory, beside a file of the same bytes at the same hostname; both logged',
  async prepare(lab) {
    const platform = await lab.platform()
    const picture = { path: 'cat.jpg', content: await makePicture(), contentType: 'image/jpeg' }
    const first = await deployFiles(lab, [picture])
    const path = imagePath('width=128&format=webp')
    const { body } = await ask(platform.edgeOrigin, first, path)
    const webp = { path: 'cat.0a1b2c3d4e5f.webp', content: body, contentType: 'image/webp' }
    const host = await deployFiles(lab, [picture, webp])
    const { body: made } = await ask(platform.edgeOrigin, host, path)
    strictEqual(made.length, body.length)
    const contender = { origin: platform.edgeOrigin, pid: platform.apiPid }
    return {
      load: { method: 'GET', path, headers: async () => ({ host }), addressBlock: 63, connections: 64 },
      ours: { name: 'ours', ...contender },
      peers: [{ name: 'static file', ...contender, path: `/${webp.path}`, aim: { cpuRatioMax: 1.5 } }],
      async check(name, answer) {
        strictEqual((await answer.arrayBuffer()).byteLength, body.length, name)
      },
    }
  },
}

export const imageMiss: Suite = {
  name: 'image-miss',
  work: 'GET of an image, of a picture of 1,600 × 1,200, that nobody has asked for, one at a time, made and stored',
  async prepare(lab) {
    const { platform, missOne } = await prepareMisses(lab)
    const trial = (format: string, width: number): Trial => ({
      name: `${format}, ${width} pixels wide`,
      pid: platform.apiPid,
      async measure(seconds) {
        const times: number[] = []
        const startedAt = performance.now()
        while (performance.now() - startedAt < seconds * 1_000) times.push(await missOne(format, width))
        const took = (performance.now() - startedAt) / 1_000
        times.sort((a, b) => a - b)
        const percentile = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0
        return { perSecond: times.length / took, seconds: took, p50Ms: percentile(0.5), p99Ms: percentile(0.99) }
      },
    })
    const others = [trial('avif', 640), trial('webp', 1_200), trial('avif', 1_200)]
    return { ours: trial('webp', 640), peers: others.map((other) => ({ ...other, aim: {} })) }
  },
}

const MISSES = 1_000
const AT_ONCE = 4

export const imageMemory: Suite = {
  name: 'image-memory',
  work: `${MISSES} images that nobody has asked for, ${AT_ONCE} at a time: what the platform and its children take before and after`,
  isLarge: true,
  async prepare(lab) {
    const { platform, missOne } = await prepareMisses(lab)
    const memory = () => memoryOfServer(platform.apiPid, false) ?? 0
    return {
      ours: {
        name: 'ours',
        pid: platform.apiPid,
        async measure(seconds) {
          // A warm-up is a few; the measurement is all of them, however long that takes.
          const count = seconds < 5 ? 20 : MISSES
          const before = memory()
          const startedAt = performance.now()
          let left = count
          let most = before
          const askNext = async (): Promise<void> => {
            while (left-- > 0) {
              await missOne('webp', 640)
              most = Math.max(most, memory())
            }
          }
          await Promise.all(Array.from({ length: AT_ONCE }, askNext))
          const took = (performance.now() - startedAt) / 1_000
          const facts = { 'MB before': before, 'MB at most': most, 'MB after': memory() }
          return { perSecond: count / took, seconds: took, facts }
        },
      },
      peers: [],
    }
  },
}
