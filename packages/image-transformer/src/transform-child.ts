import { setPriority } from 'node:os'
import { writeFrame, readFrames } from './frames.ts'
import { ImageFailure, type ImageFailureCode, type ImageWish, type TransformedImage } from './image-wish.ts'
import { transformImage } from './transform-image.ts'

/** The child's answer. The bytes are those of the image. */
export type ChildAnswer =
  | Omit<Extract<TransformedImage, { kind: 'image' }>, 'content'>
  | Extract<TransformedImage, { kind: 'unchanged' }>
  | { kind: 'failure'; code: ImageFailureCode; message: string }

const FRAME_BYTES_MAX = 64 * 1_024 * 1_024
const NOTHING = Buffer.alloc(0)

async function answer(input: Buffer, wish: ImageWish): Promise<{ head: ChildAnswer; body: Buffer }> {
  try {
    const made = await transformImage(input, wish)
    if (made.kind === 'unchanged') return { head: made, body: NOTHING }
    const { content, ...head } = made
    return { head, body: content }
  } catch (error) {
    const { code, message } =
      error instanceof ImageFailure ? error : new ImageFailure('not_an_image', 'The source could not be transformed')
    return { head: { kind: 'failure', code, message }, body: NOTHING }
  }
}

// Requests have priority over images.
setPriority(10)
readFrames<ImageWish>(process.stdin, FRAME_BYTES_MAX, ({ head, body }) => {
  void answer(body, head).then((frame) => writeFrame(process.stdout, frame))
})
// The transformer is gone, or needs this child no more.
process.stdin.on('close', () => process.exit(0))
process.stdin.on('end', () => process.exit(0))
