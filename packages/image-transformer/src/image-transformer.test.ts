import { readdirSync, readFileSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { unless } from '@platform/test-runner/task-meta'
import sharp, { type FormatEnum } from 'sharp'
import { afterEach, describe, expect, test } from 'vitest'
import { fittedBox } from './fitted-box.ts'
import { ImageFailure, type ImageWish, openImageTransformer, type TransformerOptions } from './image-transformer.ts'
import { contentTypeOfKind, sniffImage } from './sniff-image.ts'

const closers: (() => void)[] = []
afterEach(() => closers.splice(0).forEach((close) => close()))

function open(options: TransformerOptions = {}) {
  const transformer = openImageTransformer({ deadlineMs: 60_000, ...options })
  closers.push(() => transformer.close())
  return transformer
}

const wish = (partialWish: Partial<ImageWish> = {}): ImageWish => ({
  fit: 'cover',
  format: 'original',
  quality: 75,
  ...partialWish,
})

/** A picture that takes longer than any deadline of these tests to become an AVIF; made once. */
let slowPicture: Promise<Buffer> | undefined
const slow = (): Promise<Buffer> => (slowPicture ??= picture(6_000, 6_000).toBuffer())

/** Creates a picture of one colour, which costs little to read and write. */
const plain = (width: number, height: number) => sharp({ create: { width, height, channels: 3, background: '#7a5' } })

/** Creates a picture with detail everywhere. */
function picture(width: number, height: number, format: keyof FormatEnum | 'avif' = 'jpeg') {
  const pixels = Buffer.alloc(64 * 64 * 3)
  for (let n = 0; n < pixels.length; n++) pixels[n] = (n * 7 + ((n * n) % 251)) & 255
  return sharp(pixels, { raw: { width: 64, height: 64, channels: 3 } })
    .resize(width, height, { fit: 'fill' })
    .toFormat(format)
}

async function imageOf(promise: ReturnType<ReturnType<typeof open>['transform']>) {
  const made = await promise
  if (made.kind !== 'image') throw new Error(made.kind)
  return made
}

const codeOf = async (promise: Promise<unknown>): Promise<unknown> => {
  const error = await promise.catch((failure: unknown) => failure)
  return error instanceof ImageFailure ? error.code : error
}

/** Returns the child processes that transform for this one. */
function childPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const [, parent] = /\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
        const isOurs = Number(parent) === process.pid && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
        return isOurs && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('transform-child') ? [Number(pid)] : []
      } catch {
        return [] // it ended meanwhile
      }
    })
}
const notLinux = process.platform === 'linux' ? undefined : 'it reads /proc of Linux'

/** Returns what all children together have worked, whatever else the machine does. */
function childCpuSeconds(): number {
  const ticks = childPids().map((pid) => {
    // After the name in parentheses: 11 more fields, then user and system time in hundredths of a second (proc(5)).
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ')
    return Number(fields[11]) + Number(fields[12])
  })
  return ticks.reduce((sum, each) => sum + each, 0) / 100
}

test.each<[string, [number, number], Pick<ImageWish, 'width' | 'height' | 'fit'>, [number, number]]>([
  ['nothing', [400, 200], { fit: 'inside' }, [400, 200]],
  ['a width', [400, 200], { width: 100, fit: 'inside' }, [100, 50]],
  ['a larger width', [400, 200], { width: 800, fit: 'inside' }, [400, 200]],
  ['nothing, of a large source', [8_000, 5_000], { fit: 'inside' }, [4_857, 3_036]],
  ['a width, of a long source', [100, 40_000], { width: 100, fit: 'inside' }, [41, 16_383]],
  ['a height', [400, 200], { height: 50, fit: 'inside' }, [100, 50]],
  ['a line', [4_000, 2], { width: 16, fit: 'inside' }, [16, 1]],
  ['inside a box', [400, 200], { width: 100, height: 100, fit: 'inside' }, [100, 50]],
  ['inside a larger box', [400, 200], { width: 900, height: 900, fit: 'inside' }, [400, 200]],
  ['cover a box', [400, 200], { width: 100, height: 100, fit: 'cover' }, [100, 100]],
  ['cover a larger box', [400, 200], { width: 800, height: 800, fit: 'cover' }, [200, 200]],
  ['cover a box that is larger one way', [400, 200], { width: 100, height: 400, fit: 'cover' }, [50, 200]],
  ['contain in a box', [400, 200], { width: 100, height: 100, fit: 'contain' }, [100, 100]],
  ['contain in a larger box', [400, 200], { width: 800, height: 800, fit: 'contain' }, [400, 400]],
])('%s', (_, [width, height], wished, [across, down]) => {
  expect(fittedBox({ width, height }, wished)).toEqual({ width: across, height: down })
})

describe('an image', () => {
  const from = ['jpeg', 'png', 'webp', 'avif', 'gif'] as const
  test.each(from)('of %s becomes each format', async (format) => {
    const { transform } = open()
    const source = await picture(80, 40, format).toBuffer()
    expect(sniffImage(source)).toBe(format)
    for (const to of ['avif', 'webp', 'jpeg', 'png', 'original'] as const) {
      const made = await imageOf(transform(source, wish({ width: 40, format: to })))
      const kind = to !== 'original' ? to : format === 'gif' ? 'png' : format
      expect([to, sniffImage(made.content), made.contentType]).toEqual([to, kind, contentTypeOfKind(kind)])
      const { width, height } = await sharp(made.content).metadata()
      expect([made.width, made.height, width, height]).toEqual([40, 20, 40, 20])
    }
  })

  test('stands upright and carries no metadata', async () => {
    const { transform } = open()
    const source = await picture(80, 40)
      .withExif({ IFD0: { Copyright: 'secret place' } })
      .withMetadata({ orientation: 6 })
      .toBuffer()
    const made = await imageOf(transform(source, wish({ width: 20 })))
    expect([made.width, made.height, made.isSourceAlike]).toEqual([20, 40, false])
    const { exif, orientation, icc } = await sharp(made.content).metadata()
    expect([exif, orientation, icc]).toEqual([undefined, undefined, undefined])
    expect(source.includes('secret place')).toBe(true)
    const whole = await imageOf(transform(await picture(80, 40).toBuffer(), wish()))
    const smaller = await imageOf(transform(await picture(80, 40).toBuffer(), wish({ width: 79 })))
    expect([whole.isSourceAlike, smaller.isSourceAlike]).toEqual([true, false])
  })

  test('keeps its transparency, and is white below it as a JPEG', async () => {
    const { transform } = open()
    const source = await sharp({
      create: { width: 20, height: 10, channels: 4, background: { r: 255, g: 0, b: 0, alpha: 0 } },
    })
      .png()
      .toBuffer()
    const corner = async (format: 'png' | 'jpeg') => {
      const made = await imageOf(transform(source, wish({ width: 10, height: 10, fit: 'contain', format })))
      return [...(await sharp(made.content).raw().toBuffer()).subarray(0, format === 'png' ? 4 : 3)]
    }
    expect((await corner('png'))[3]).toBe(0)
    expect(await corner('jpeg')).toEqual([255, 255, 255])
  })

  test('that moves is unchanged', async () => {
    const { transform } = open()
    const frames = await Promise.all(
      ['red', 'blue'].map((background) =>
        sharp({ create: { width: 20, height: 20, channels: 3, background } })
          .png()
          .toBuffer(),
      ),
    )
    const still = await picture(20, 20, 'png').toBuffer()
    const afterHead = 8 + 25
    const sources = [
      await sharp(frames, { join: { animated: true } })
        .gif()
        .toBuffer(),
      await sharp(frames, { join: { animated: true } })
        .webp()
        .toBuffer(),
      Buffer.concat([still.subarray(0, afterHead), chunkOf('acTL', Buffer.alloc(8)), still.subarray(afterHead)]),
    ]
    for (const source of sources) expect(await transform(source, wish({ width: 10 }))).toEqual({ kind: 'unchanged' })
  })

  test('an image of many pixels becomes a WebP where AVIF would take seconds', async () => {
    const { transform } = open()
    const source = await plain(2_100, 2_000).jpeg().toBuffer()
    const kindOf = async (partialWish: Partial<ImageWish>) =>
      sniffImage((await imageOf(transform(source, wish({ format: 'avif', quality: 10, ...partialWish })))).content)
    expect(
      await Promise.all([kindOf({ instead: 'webp' }), kindOf({ instead: 'webp', width: 64 }), kindOf({})]),
    ).toEqual(['webp', 'avif', 'avif'])
  })
})

function chunkOf(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data])
  const ends = Buffer.alloc(8)
  ends.writeUInt32BE(data.length, 0)
  ends.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)])
}

/** Creates a PNG that claims this many pixels, and has none. */
function hugePng(width: number, height: number): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2], 8)
  const signature = Buffer.from('89504e470d0a1a0a', 'hex')
  return Buffer.concat([
    signature,
    chunkOf('IHDR', head),
    chunkOf('IDAT', Buffer.alloc(9)),
    chunkOf('IEND', Buffer.alloc(0)),
  ])
}

test.each<[string, () => Promise<Buffer> | Buffer, string]>([
  ['100,000 × 100,000 pixels', () => hugePng(100_000, 100_000), 'too_large'],
  ['one row more than 40 megapixels', () => hugePng(10_000, 4_001), 'too_large'],
  ['a picture without its pixels', () => hugePng(10_000, 4_000), 'not_an_image'],
  ['21 MB', () => Buffer.alloc(20 * 1_024 * 1_024 + 1), 'too_large'],
  ['nothing', () => Buffer.alloc(0), 'not_an_image'],
  ['a text', () => Buffer.from('<!doctype html><p>Not found'), 'not_an_image'],
  ['an SVG', () => Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'), 'not_an_image'],
  ['a TIFF', () => picture(20, 20, 'tiff').toBuffer(), 'not_an_image'],
  ['half a JPEG', async () => (await picture(200, 200).toBuffer()).subarray(0, 5_000), 'not_an_image'],
])('%s is refused', async (_, source, code) => {
  expect(await codeOf(open().transform(await source(), wish({ width: 16, format: 'webp' })))).toBe(code)
  if (notLinux === undefined) expect(childCpuSeconds()).toBeLessThan(4)
})

test('one that takes too long is killed at its deadline, and the next one is made', async () => {
  const { transform } = open({ deadlineMs: 400, atOnce: 1 })
  // Longer than the deadline on any machine, and no encoder stops by itself.
  expect(await codeOf(transform(await slow(), wish({ format: 'avif', quality: 100 })))).toBe('too_slow')
  if (notLinux === undefined) await expect.poll(childPids).toEqual([])
  const patient = open()
  expect((await imageOf(patient.transform(await picture(20, 20).toBuffer(), wish()))).width).toBe(20)
})

test('one that needs too much memory is refused, and the next one is made', unless(notLinux), async () => {
  const { transform } = open({ memoryBytes: 720 * 1_024 * 1_024, atOnce: 1 })
  const small = await picture(20, 20).toBuffer()
  expect((await imageOf(transform(small, wish()))).width).toBe(20)
  const large = await plain(6_300, 6_300).png().toBuffer()
  expect(await codeOf(transform(large, wish({ format: 'avif' })))).toBe('too_large')
  expect((await imageOf(transform(small, wish()))).width).toBe(20)
})

test('a child that is killed over an image fails that one alone', unless(notLinux), async () => {
  await expect.poll(childPids).toEqual([])
  const { transform } = open({ atOnce: 1 })
  const small = await picture(20, 20).toBuffer()
  await transform(small, wish())
  const [pid] = childPids()
  const killed = transform(await slow(), wish({ format: 'avif' }))
  const next = transform(small, wish())
  process.kill(pid ?? 0, 'SIGKILL')
  expect(await codeOf(killed)).toBe('too_large')
  expect((await imageOf(next)).width).toBe(20)
  expect(childPids()).not.toContain(pid)
})

test(
  'children start with the first image, see no environment, and end when they are idle',
  unless(notLinux),
  async () => {
    // The children of the previous test are killed, and disappear shortly after.
    await expect.poll(childPids).toEqual([])
    const { transform } = open({ idleMs: 1 })
    expect(childPids()).toEqual([])
    const lasting = open()
    await lasting.transform(await picture(20, 20).toBuffer(), wish())
    const [pid] = childPids()
    const names = readFileSync(`/proc/${pid}/environ`, 'utf8')
      .split('\0')
      .flatMap((entry) => (entry === '' ? [] : [entry.split('=')[0]]))
    // The shell adds its own variables.
    expect(names.filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name ?? ''))).toEqual(['MALLOC_ARENA_MAX'])
    lasting.close()
    await expect.poll(childPids).toEqual([])
    await transform(await picture(20, 20).toBuffer(), wish())
    await expect.poll(childPids).toEqual([])
  },
)

test('two are made at a time, so many wait, and more are refused at once', async () => {
  if (notLinux === undefined) await expect.poll(childPids).toEqual([])
  const { transform, close } = open({ waitingMax: 3 })
  const source = await slow()
  const outcomes = Array.from({ length: 7 }, () => codeOf(transform(source, wish({ format: 'avif' }))))
  expect(await Promise.all(outcomes.slice(5))).toEqual(['busy', 'busy'])
  // Until a child has become the program, /proc shows it under its parent's name.
  if (notLinux === undefined) await expect.poll(childPids).toHaveLength(2)
  close()
  expect(await Promise.all(outcomes)).toEqual(Array.from({ length: 7 }, () => 'busy'))
  expect(await codeOf(transform(source, wish()))).toBe('busy')
})

test('one that waits too long is refused', async () => {
  const { transform, close } = open({ atOnce: 1, waitMs: 1 })
  const source = await slow()
  const first = codeOf(transform(source, wish({ format: 'avif' })))
  expect(await codeOf(transform(source, wish()))).toBe('busy')
  close()
  await first
})

test.each([
  ['a declaration', '<?xml version="1.0"?>\n<!-- made by hand -->\n<svg a="b">', 'svg'],
  ['a byte order mark', '\ufeff  <SVG>', 'svg'],
  ['HTML with an SVG in it', '<!doctype html><svg>', undefined],
  ['a page', '<html>', undefined],
  ['nothing', '', undefined],
])('what begins with %s is %s', (_, text, kind) => {
  expect(sniffImage(Buffer.from(text))).toBe(kind)
})
