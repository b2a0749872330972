/** What is made of an image; every member may be left out. */
export interface ImageOptions {
  /** The origin that serves the site, such as `https://shop.example.net`. */
  origin: string
  /** A path of the site, such as `/cats/tabby.jpg`, or an address elsewhere that the site allows. */
  source: string
  /** Pixels, 1–3,840. */
  width?: number | undefined
  height?: number | undefined
  /** 1–100. */
  quality?: number | undefined
  format?: 'avif' | 'webp' | 'jpeg' | 'png' | undefined
  fit?: 'cover' | 'contain' | 'inside' | undefined
}

/** The URL of an image in another size or format (A §4, managed image URLs). Makes no request. */
export function imageUrl({ origin, source, ...options }: ImageOptions): string {
  const url = new URL(`/_platform/image/${encodeURIComponent(source)}/image`, origin)
  for (const name of ['width', 'height', 'quality', 'format', 'fit'] as const)
    if (options[name] !== undefined) url.searchParams.set(name, String(options[name]))
  return url.href
}
