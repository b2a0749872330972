/** Image formats that browsers show. */
export type ImageKind = 'jpeg' | 'png' | 'gif' | 'webp' | 'avif' | 'svg'

const HEAD_BYTES = 1_024

/** Detects an image's format from its first bytes, whatever its name. Returns undefined for formats that are not served. */
export function sniffImage(content: Buffer): ImageKind | undefined {
  const head = content.toString('latin1', 0, HEAD_BYTES)
  if (head.startsWith('\xff\xd8\xff')) return 'jpeg'
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'png'
  if (/^GIF8[79]a/.test(head)) return 'gif'
  if (/^RIFF[^]{4}WEBP/.test(head)) return 'webp'
  if (/^[^]{4}ftyp[^]{0,64}?avi[fs]/.test(head)) return 'avif'
  // An element or declaration, after a byte order mark, white space and comments.
  if (/^(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^]*?-->\s*|<!DOCTYPE svg[^>]*>\s*)*<svg[\s>]/i.test(head))
    return 'svg'
  return undefined
}

export const contentTypeOfKind = (kind: ImageKind): string => (kind === 'svg' ? 'image/svg+xml' : `image/${kind}`)
