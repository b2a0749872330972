import sharp, { type Metadata, type Sharp } from 'sharp'
import { fittedBox } from './fitted-box.ts'
import { ImageFailure, type ImageFormat, type ImageWish, type TransformedImage } from './image-wish.ts'

/** An image with more pixels is rejected by its header, before any of them is decoded. */
const PIXELS_MAX = 40_000_000
/** Encoding a larger AVIF takes more than two seconds of a core. */
const AVIF_PIXELS_MAX = 4_000_000
/** AVIF needs a lower number than other formats for the same visible quality. */
const AVIF_QUALITY_LESS = 20
/** The chunk that marks an animated PNG is within these bytes. */
const PNG_HEAD_BYTES = 4_096

// Children end when idle, so caching is useless, and two of them share the cores.
sharp.cache(false)
sharp.concurrency(1)
// Decoders of formats that browsers do not show are unreachable, whatever an image claims to be.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: [
    'VipsForeignLoadJpeg',
    'VipsForeignLoadPng',
    'VipsForeignLoadWebp',
    'VipsForeignLoadHeif',
    'VipsForeignLoadNsgif',
  ],
})

const typeOf: Readonly<Record<ImageFormat, string>> = {
  avif: 'image/avif',
  webp: 'image/webp',
  jpeg: 'image/jpeg',
  png: 'image/png',
}

function formatOf({ format, compression }: Metadata): ImageFormat {
  if (format === 'jpeg' || format === 'png' || format === 'webp') return format
  if (format === 'gif') return 'png'
  if (format === 'heif' && compression === 'av1') return 'avif'
  throw new ImageFailure('not_an_image', `An image of ${format} is not read here`)
}

function encode(image: Sharp, format: ImageFormat, quality: number): Sharp {
  switch (format) {
    case 'avif':
      // More effort would take seconds for a few per cent.
      return image.avif({ quality: Math.max(1, quality - AVIF_QUALITY_LESS), effort: 2, chromaSubsampling: '4:2:0' })
    case 'webp':
      return image.webp({ quality })
    case 'jpeg':
      return image.flatten({ background: '#fff' }).jpeg({ quality })
    case 'png':
      return image.png({ compressionLevel: 6 })
  }
}

async function readHeader(input: Buffer): Promise<Metadata> {
  try {
    return await sharp(input, { limitInputPixels: false }).metadata()
  } catch (error) {
    throw new ImageFailure('not_an_image', 'The source is not an image that can be read', error)
  }
}

/**
 * Transforms an image. The result is upright by its EXIF orientation and carries no metadata; its colours are sRGB. Returns
 * `unchanged` for an animated image.
 *
 * Throws ImageFailure: `not_an_image`, or `too_large` by the header alone. D88, deployments.md Images.
 */
export async function transformImage(input: Buffer, wish: ImageWish): Promise<TransformedImage> {
  const header = await readHeader(input)
  const own = formatOf(header)
  const { width, height, pages = 1, orientation = 1 } = header
  if (width * height > PIXELS_MAX)
    throw new ImageFailure('too_large', `The source has ${width} × ${height} pixels, more than ${PIXELS_MAX}`)
  if (pages > 1 || (own === 'png' && input.subarray(0, PNG_HEAD_BYTES).includes('acTL'))) return { kind: 'unchanged' }
  const upright = orientation >= 5 ? { width: height, height: width } : { width, height }
  const box = fittedBox(upright, wish)
  const wished = wish.format === 'original' ? own : wish.format
  const format = wished === 'avif' && box.width * box.height > AVIF_PIXELS_MAX ? (wish.instead ?? wished) : wished
  const transparent = format !== 'jpeg'
  const pipeline = sharp(input, { limitInputPixels: PIXELS_MAX, failOn: 'error' })
    .autoOrient()
    .resize({
      ...box,
      fit: wish.fit === 'inside' ? 'fill' : wish.fit,
      background: transparent ? { r: 0, g: 0, b: 0, alpha: 0 } : '#fff',
    })
  try {
    const { data, info } = await encode(pipeline, format, wish.quality).toBuffer({ resolveWithObject: true })
    const isSameSize = info.width === upright.width && info.height === upright.height
    return {
      kind: 'image',
      content: data,
      contentType: typeOf[format],
      width: info.width,
      height: info.height,
      isSourceAlike: isSameSize && orientation === 1 && !(header.exif ?? header.xmp ?? header.iptc),
    }
  } catch (error) {
    // libvips reports nothing more specific about an exceeded limit.
    const isMemory = error instanceof Error && /memory|wbuffer_write/i.test(error.message)
    if (isMemory) throw new ImageFailure('too_large', 'The image needs more memory than it may have', error)
    throw new ImageFailure('not_an_image', 'The source could not be decoded', error)
  }
}
