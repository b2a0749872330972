import type { ImageWish } from './image-wish.ts'

interface Box {
  width: number
  height: number
}

/** Limits of an unbounded result: 3,840 × 3,840 pixels, as for the largest box, and WebP's maximum side. */
const PIXELS_MAX = 3_840 * 3_840
const SIDE_MAX = 16_383

const whole = (length: number): number => Math.max(1, Math.round(length))

/**
 * Returns the size of the result in pixels, for an upright source. The picture itself is never enlarged: a box that would require
 * it is scaled down in its own proportions.
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
