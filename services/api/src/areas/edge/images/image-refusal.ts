import { INPUT_BYTES_MAX } from '@platform/image-transformer/image-transformer'

/** Why a request for an image was refused. */
export type ImageRefusalCode =
  | 'image_request_invalid'
  | 'image_source_missing'
  | 'image_too_large'
  | 'image_unreadable'
  | 'image_busy'
  | 'image_source_failed'
  | 'image_timeout'
  | 'image_loop'

/** text: a sentence for the client. */
export class ImageRefusal extends Error {
  override name = 'ImageRefusal'
  readonly code: ImageRefusalCode
  constructor(code: ImageRefusalCode, text: string, cause?: unknown) {
    super(text, { cause })
    this.code = code
  }
}

/** The text of `image_too_large` for a source that is too long. */
export const tooLongSource = `The source has more than ${INPUT_BYTES_MAX / 1_048_576} MB.`
