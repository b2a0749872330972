import { createHash } from 'node:crypto'
import type { VideoRequest } from '@platform/ai-protocols/video-request'

/** VP8 key frames, 64 × 64 pixels of one colour: blue and yellow. */
const frames = [
  'kAMAnQEqQABAAD7RaK9SqCYkIqIIAQAaCWkAABA3U1AFeIW5AAD+7nZ//I7fromO/3vS1wr/RAAAAA==',
  'sAMAnQEqQABAAD7RaK9SqCYkIqIIAQAaCWkA0UQFmusAFeMqtyAA/u0q3/+LQ/ow/laybfrXK1aQl2pUWCbHJ2TuGf24AAAA',
].map((frame) => Buffer.from(frame, 'base64'))

const SIDE_PIXELS = 64
const SECONDS_DEFAULT = 4
const SECONDS_MAX = 600
/** Frames within a cluster are numbered by 16 bits of milliseconds. */
const CLUSTER_SECONDS = 30
const TITLE = 'local/echo-video is no video model: two colours take turns'

/** A job of `local/echo-video`, in the format of providers' jobs. */
export interface LocalVideoJob {
  id: string
  status: 'completed'
  model: string
  /** Whole seconds, 1–600. */
  duration: number
}

/** Starts a video, which is complete at once. Equal requests get the same job id. */
export function startLocalVideo(request: VideoRequest): LocalVideoJob {
  const seconds = Number(request.duration ?? request.seconds ?? SECONDS_DEFAULT)
  const duration = Math.min(Math.max(1, Math.round(seconds)), SECONDS_MAX)
  const { model, prompt, size, resolution, seed } = request
  const content = JSON.stringify([model, prompt, duration, size ?? null, resolution ?? null, seed ?? null])
  const id = `local-${createHash('sha256').update(content).digest('hex').slice(0, 32)}`
  return { id, status: 'completed', model, duration }
}

type Content = number | string | Buffer | Element[]
type Element = readonly [id: string, content: Content]

function bytesOf(content: Content): Buffer {
  if (Buffer.isBuffer(content)) return content
  if (typeof content === 'string') return Buffer.from(content)
  if (typeof content === 'object') return Buffer.concat(content.map(writeElement))
  const hex = content.toString(16)
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
}

/** Writes an EBML element (RFC 8794); its id is in hexadecimal. */
function writeElement([id, content]: Element): Buffer {
  const bytes = bytesOf(content)
  const length = Buffer.alloc(8)
  length.writeBigUInt64BE(BigInt(bytes.length) | (1n << 56n))
  return Buffer.concat([Buffer.from(id, 'hex'), length, bytes])
}

function frameAt(second: number): Element {
  const head = Buffer.from([0x81, 0, 0, 0x80])
  head.writeInt16BE((second % CLUSTER_SECONDS) * 1_000, 1)
  return ['a3', Buffer.concat([head, frames[second % frames.length] ?? Buffer.alloc(0)])]
}

function clusterAt(second: number, seconds: number): Element {
  const length = Math.min(CLUSTER_SECONDS, seconds - second)
  const blocks = Array.from({ length }, (_, index) => frameAt(second + index))
  return ['1f43b675', [['e7', second * 1_000], ...blocks]]
}

/**
 * Makes the video of a job: WebM (RFC 9559) with a frame per second, 64 × 64 pixels whatever the request asked for.
 *
 * job.duration: whole seconds, at most 600; null: 4.
 */
export function localVideoContent(job: { duration: number | null }): { contentType: string; bytes: Buffer } {
  const seconds = job.duration ?? SECONDS_DEFAULT
  const durationMs = Buffer.alloc(8)
  durationMs.writeDoubleBE(seconds * 1_000)
  const head: Element = [
    '1a45dfa3',
    [
      ['4286', 1],
      ['42f7', 1],
      ['42f2', 4],
      ['42f3', 8],
      ['4282', 'webm'],
      ['4287', 4],
      ['4285', 2],
    ],
  ]
  const information: Element = [
    '1549a966',
    [
      ['2ad7b1', 1_000_000],
      ['4489', durationMs],
      ['7ba9', TITLE],
      ['4d80', 'local/echo-video'],
      ['5741', 'local/echo-video'],
    ],
  ]
  const track: Element = [
    'ae',
    [
      ['d7', 1],
      ['73c5', 1],
      ['9c', 0],
      ['83', 1],
      ['86', 'V_VP8'],
      [
        'e0',
        [
          ['b0', SIDE_PIXELS],
          ['ba', SIDE_PIXELS],
        ],
      ],
    ],
  ]
  const clusters = Array.from({ length: Math.ceil(seconds / CLUSTER_SECONDS) }, (_, index) =>
    clusterAt(index * CLUSTER_SECONDS, seconds),
  )
  const segment: Element = ['18538067', [information, ['1654ae6b', [track]], ...clusters]]
  return { contentType: 'video/webm', bytes: Buffer.concat([head, segment].map(writeElement)) }
}
