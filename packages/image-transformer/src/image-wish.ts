/** Output formats. */
export type ImageFormat = 'avif' | 'webp' | 'jpeg' | 'png'

/** The requested transformation of an image. */
export interface ImageWish {
  /** In pixels; an omitted one follows from the aspect ratio. Images are never enlarged beyond their source. */
  width?: number
  height?: number
  /** cover: fills the box and is cropped. contain: fits into the box, which is padded. inside: fits into it. */
  fit: 'cover' | 'contain' | 'inside'
  /** original: the source's format. */
  format: ImageFormat | 'original'
  /** Fallback for an AVIF with so many pixels that encoding would take seconds. */
  instead?: 'webp'
  /** 1–100, on JPEG's scale. */
  quality: number
}

/** The result. unchanged: send the source itself, since it is animated. */
export type TransformedImage =
  | {
      kind: 'image'
      content: Buffer
      contentType: string
      width: number
      height: number
      /** True if the source shows the same: it has the same size, is upright and carries no metadata. */
      isSourceAlike: boolean
    }
  | { kind: 'unchanged' }

/**
 * Why there is no image: the source is unreadable, has too many pixels or needs too much memory, takes too long, or too many others
 * are waiting.
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
