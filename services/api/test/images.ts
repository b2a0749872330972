import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'
import type { TestPlatform } from '@platform/testing/platform'
import { and, eq } from 'drizzle-orm'
import sharp from 'sharp'
import { imageVariants } from '../src/areas/edge/images/table.ts'
import { type Deployed, type Got, visit } from './deploy.ts'

/** A picture with detail everywhere, whose bytes depend on `seed`. */
export async function picture(
  width: number,
  height: number,
  format: 'jpeg' | 'png' | 'webp' | 'avif' | 'gif' = 'jpeg',
  seed = 1,
): Promise<Buffer> {
  const pixels = Buffer.alloc(64 * 64 * 3)
  for (let n = 0; n < pixels.length; n++) pixels[n] = (n * (seed + 6) + ((n * n) % 251)) & 255
  const small = sharp(pixels, { raw: { width: 64, height: 64, channels: 3 } })
  return small.resize(width, height, { fit: 'fill' }).toFormat(format).toBuffer()
}

/** A picture of two frames. */
export async function movingPicture(): Promise<Buffer> {
  const frames = ['red', 'blue'].map((background) =>
    sharp({ create: { width: 60, height: 40, channels: 3, background } })
      .png()
      .toBuffer(),
  )
  return sharp(await Promise.all(frames), { join: { animated: true } })
    .gif()
    .toBuffer()
}

function chunkOf(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data])
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  check.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, check])
}

/** A PNG that says that it has so many pixels, and has none. */
export function hugePng(width: number, height: number): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2], 8)
  const chunks = [chunkOf('IHDR', head), chunkOf('IDAT', Buffer.alloc(9)), chunkOf('IEND', Buffer.alloc(0))]
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), ...chunks])
}

/** What an image is, by its bytes. */
export async function seen({ body }: Pick<Got, 'body'>): Promise<{ format: string; width: number; height: number }> {
  const { format, width, height, compression } = await sharp(body).metadata()
  return { format: compression === 'av1' ? 'avif' : format, width, height }
}

/** The path of a managed image URL (D88). */
export const imagePath = (source: string, query = '', fileName = 'x.webp'): string =>
  `/_platform/image/${encodeURIComponent(source)}/${fileName}${query === '' ? '' : `?${query}`}`

/** Asks a deployment for an image. */
export const askImage = (
  platform: Pick<TestPlatform, 'edgeUrl'>,
  { host }: Pick<Deployed, 'host'>,
  path: string,
  headers: Record<string, string> = {},
): Promise<Got> => visit(platform, host, path, { headers })

/** The images that are stored of a deployment, or of one of its sources. */
export const storedImages = ({ api }: Pick<TestPlatform, 'api'>, deploymentId: string, source?: string) =>
  api.db
    .select()
    .from(imageVariants)
    .where(
      and(
        eq(imageVariants.deploymentId, deploymentId),
        source === undefined ? undefined : eq(imageVariants.source, source),
      ),
    )

type Answerer = (incoming: IncomingMessage, outgoing: ServerResponse) => void

/** Another origin on loopback, which answers as a test says, by path. */
export async function startOrigin() {
  const received: IncomingMessage[] = []
  const answers = new Map<string, Answerer>()
  const server = createServer((incoming, outgoing) => {
    received.push(incoming)
    const answer = answers.get(incoming.url ?? '')
    if (answer) answer(incoming, outgoing)
    else outgoing.writeHead(404).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    received,
    countOf: (path: string) => received.filter(({ url }) => url === path).length,
    answer: (path: string, answerer: Answerer) => void answers.set(path, answerer),
    /** Answers a path with an image. */
    show(path: string, content: Buffer, headers: Record<string, string> = {}) {
      answers.set(path, (_, outgoing) =>
        outgoing.writeHead(200, { 'content-type': 'image/x', ...headers }).end(content),
      )
    },
    /** Keeps requests for a path waiting. Resolves `arrived` with the first; `release` answers all of them with an image. */
    hold(path: string, content: Buffer) {
      const waiting: ServerResponse[] = []
      const { promise: arrived, resolve } = Promise.withResolvers<void>()
      let isOpen = false
      answers.set(path, (_, outgoing) => {
        if (isOpen) outgoing.end(content)
        else waiting.push(outgoing)
        resolve()
      })
      return {
        arrived,
        release() {
          isOpen = true
          for (const outgoing of waiting.splice(0)) outgoing.end(content)
        },
      }
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
