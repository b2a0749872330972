/** Formats that images are written in. */
export type ImageFormat = 'avif' | 'webp' | 'jpeg' | 'png'

/** What is to become of an image. */
export interface ImageWish {
  /** In pixels; of one that is left out the aspect ratio decides. Neither makes an image larger than its source is. */
  width?: number
  height?: number
  /** cover: fills the box and is cropped. contain: fits into the box, which is filled up. inside: fits into it. */
  fit: 'cover' | 'contain' | 'inside'
  /** original: that of the source. */
  format: ImageFormat | 'original'
  /** Made instead of an AVIF of so many pixels that it would take seconds. */
  instead?: 'webp'
  /** 1–100, by the scale of JPEG. */
  quality: number
}

/** What became of it. unchanged: the source is better sent as it is, since it moves. */
export type TransformedImage =
  | {
      kind: 'image'
      content: Buffer
      contentType: string
      width: number
      height: number
      /** The source shows the same as it is: it has the same size, stands upright and carries no metadata. */
      isSourceAlike: boolean
    }
  | { kind: 'unchanged' }

/**
 * Why there is no image: the source is none that can be read, has too many pixels or needs too much memory, takes too long, or others
 * wait already.
 */
export type ImageFailureCode = 'not_an_image' | 'too_large' | 'too_slow' | 'busy'

export class ImageFailure extends Error {
  override name = 'ImageFailure'
  readonly code: ImageFailureCode
  constructor(code: ImageFailureCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}
