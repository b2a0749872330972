import type { ImageWish } from './image-wish.ts'

interface Box {
  width: number
  height: number
}

/** Of a result that no box bounds: 3,840 × 3,840 pixels, as of the largest box, and the longest side that WebP has. */
const PIXELS_MAX = 3_840 * 3_840
const SIDE_MAX = 16_383

const whole = (length: number): number => Math.max(1, Math.round(length))

/**
 * The size of the result, in pixels, for a source that stands upright. The picture itself is never enlarged: a box that would ask for
 * that is made smaller in its own proportions.
 */
export function fittedBox(source: Box, { width, height, fit }: Pick<ImageWish, 'width' | 'height' | 'fit'>): Box {
  if (width === undefined || height === undefined || fit === 'inside') {
    const scale = Math.min(
      1,
      (width ?? SIDE_MAX) / source.width,
      (height ?? SIDE_MAX) / source.height,
      Math.sqrt(PIXELS_MAX / (source.width * source.height)),
    )
    return { width: whole(source.width * scale), height: whole(source.height * scale) }
  }
  const [across, down] = [width / source.width, height / source.height]
  const enlargement = Math.max(1, fit === 'cover' ? Math.max(across, down) : Math.min(across, down))
  return { width: whole(width / enlargement), height: whole(height / enlargement) }
}
