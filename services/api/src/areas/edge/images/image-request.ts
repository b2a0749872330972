import { compileImageSources, type ImageSources } from '@platform/build-output/image-sources'
import type { ImageRules } from '@platform/build-output/manifest'
import { normalizePath } from '@platform/build-output/normalize-path'
import type { ImageWish } from '@platform/image-transformer/image-transformer'
import { ImageRefusal } from './image-refusal.ts'

/** Where the image comes from. name: its name in rows, lists and purges. */
export type ImageSource =
  /** A path of the same deployment. query: without its question mark. */
  { kind: 'local'; name: string; path: string; query: string } | { kind: 'remote'; name: string; url: string }

/** Formats that may replace the source's own, best first. */
type Negotiable = 'avif' | 'webp'

export interface ImageRequest {
  source: ImageSource
  wish: Omit<ImageWish, 'format'>
  /** A fixed format, or candidates of which the client's Accept header selects one. */
  format: Exclude<ImageWish['format'], 'original'> | readonly Negotiable[]
  /** For Content-Disposition. */
  fileName: string
}

const PLATFORM_PREFIX = '/_platform/image/'
/** Paths that frameworks use, with or without a trailing slash. */
const FRAMEWORK_PATH = /^\/(?:_vercel|_next)\/image\/?$/
/** Limit for a source; the paths of a deployment are no longer either. */
export const SOURCE_BYTES_MAX = 2_048
const SIDE_MAX = 3_840
/** Widths and heights are rounded up to these, so that strangers cannot request arbitrary sizes (D88). */
const SIDES = [16, 32, 48, 64, 96, 128, 256, 384, 640, 750, 828, 1_080, 1_200, 1_920, 2_048, SIDE_MAX]
const QUALITY_STEP = 5
const QUALITY_DEFAULT = 75
const BOTH: readonly Negotiable[] = ['avif', 'webp']
const formats = ['avif', 'webp', 'jpeg', 'png'] as const
const fits = ['cover', 'contain', 'inside'] as const
/** Paths of images already processed, or the platform's own: these would loop. */
const CIRCULAR = /^\/(?:_platform\/|(?:_vercel|_next)\/image(?:\/|$))/i

/** A deployment's image configuration, compiled. */
export interface ImagePolicy {
  rules: ImageRules | undefined
  sources: ImageSources
}

/** Compiles a deployment's image configuration; undefined: it has none. */
export const imagePolicyOf = (rules: ImageRules | undefined): ImagePolicy => ({
  rules,
  sources: compileImageSources(rules),
})

const invalid = (text: string): ImageRefusal => new ImageRefusal('image_request_invalid', text)

/** Reads a parameter that may occur at most once. */
function read(query: URLSearchParams, name: string): string | undefined {
  const [value, ...more] = query.getAll(name)
  if (more.length > 0) throw invalid(`${name} stands more than once.`)
  return value === '' ? undefined : value
}

function readWhole(query: URLSearchParams, name: string, max: number): number | undefined {
  const value = read(query, name)
  if (value === undefined) return undefined
  const number = /^\d{1,9}$/.test(value) ? Number(value) : 0
  if (number < 1 || number > max) throw invalid(`${name} has to be a whole number from 1 to ${max}.`)
  return number
}

function readOneOf<T extends string>(query: URLSearchParams, name: string, values: readonly T[]): T | undefined {
  const value = read(query, name)
  if (value === undefined) return undefined
  const choice = values.find((each) => each === value)
  if (choice === undefined) throw invalid(`${name} has to be one of ${values.join(', ')}.`)
  return choice
}

const roundUp = (side: number | undefined): number | undefined => SIDES.find((each) => each >= (side ?? Infinity))

/**
 * Reads the name of a source, a path of the deployment with its query or a URL elsewhere, and normalizes it. Throws ImageRefusal
 * for anything else, and for paths that would loop.
 */
export function readImageSource(text: string): ImageSource {
  if (text === '' || Buffer.byteLength(text) > SOURCE_BYTES_MAX)
    throw invalid(`The source has to have 1 to ${SOURCE_BYTES_MAX} bytes.`)
  const local = text.startsWith('/') && !/^\/[/\\]/.test(text)
  const base = 'http://deployment.invalid'
  const url = URL.parse(text, local ? base : undefined)
  const isRemote = !local && (url?.protocol === 'http:' || url?.protocol === 'https:')
  if (!url || (local && url.origin !== base) || (!local && !isRemote))
    throw invalid('The source has to be a path that begins with one slash, or an address of http or https.')
  url.hash = ''
  if (isRemote) {
    const name = url.href
    if (Buffer.byteLength(name) > SOURCE_BYTES_MAX) throw invalid('The source is too long.')
    return { kind: 'remote', name, url: name }
  }
  const path = normalizePath(url.pathname)
  // Routing treats an encoded slash as part of a name, but Functions may decode it.
  if (CIRCULAR.test(path.replaceAll(/%2f|%5c/gi, '/'))) throw invalid('The source may not be an image of the platform.')
  const name = `${path}${url.search}`
  if (Buffer.byteLength(name) > SOURCE_BYTES_MAX) throw invalid('The source is too long.')
  return { kind: 'local', name, path, query: url.search.slice(1) }
}

/** Reads a source and checks that the deployment allows it. Throws ImageRefusal. */
function allowedSource(text: string, { sources }: ImagePolicy): ImageSource {
  const source = readImageSource(text)
  requireAllowed(source, sources)
  return source
}

/** Throws ImageRefusal unless a deployment's `images` allow the source. Also called for every redirect. */
export function requireAllowed(source: ImageSource, sources: ImageSources): void {
  const isAllowed =
    source.kind === 'local'
      ? sources.allowsLocal(source.path, source.query === '' ? '' : `?${source.query}`)
      : sources.allowsRemote(new URL(source.url))
  if (!isAllowed) throw invalid('The source is not among those that this deployment allows.')
}

/** The last segment of the source's path, without its extension. */
function fileNameOf(source: ImageSource): string {
  const path = source.kind === 'local' ? source.path : new URL(source.url).pathname
  const name = path
    .slice(path.lastIndexOf('/') + 1)
    .replace(/\.[^.]*$/, '')
    .replaceAll(/%[0-9A-F]{2}|[^\w.-]/gi, '')
  return name === '' ? 'image' : name.slice(0, 100)
}

function readPlatformRequest(path: string, query: URLSearchParams, policy: ImagePolicy): ImageRequest {
  const rest = path.slice(PLATFORM_PREFIX.length)
  const end = rest.lastIndexOf('/')
  if (end < 1) throw invalid('The path has to be /_platform/image/{source}/{filename}.')
  let text: string
  try {
    text = decodeURIComponent(rest.slice(0, end))
  } catch {
    throw invalid('The source has to be percent-encoded.')
  }
  const source = allowedSource(text, policy)
  const width = roundUp(readWhole(query, 'width', SIDE_MAX))
  const height = roundUp(readWhole(query, 'height', SIDE_MAX))
  const quality = readWhole(query, 'quality', 100) ?? QUALITY_DEFAULT
  const fit = readOneOf(query, 'fit', fits) ?? 'cover'
  return {
    source,
    wish: {
      ...(width !== undefined && { width }),
      ...(height !== undefined && { height }),
      // With only one side given, all three modes are equal.
      fit: width === undefined || height === undefined ? 'inside' : fit,
      quality: Math.ceil(quality / QUALITY_STEP) * QUALITY_STEP,
    },
    format: readOneOf(query, 'format', formats) ?? BOTH,
    fileName: fileNameOf(source),
  }
}

function readFrameworkRequest(query: URLSearchParams, policy: ImagePolicy, rules: ImageRules): ImageRequest {
  const text = read(query, 'url')
  const width = readWhole(query, 'w', Number.MAX_SAFE_INTEGER)
  const quality = readWhole(query, 'q', 100)
  if (text === undefined || width === undefined || quality === undefined)
    throw invalid('url, w and q have to be there.')
  if (!rules.sizes.includes(width)) throw invalid('w is not among the sizes that this deployment allows.')
  if (rules.qualities && !rules.qualities.includes(quality))
    throw invalid('q is not among the qualities that this deployment allows.')
  const source = allowedSource(text, policy)
  return {
    source,
    wish: { width, fit: 'inside', quality },
    format: rules.formats ? BOTH.filter((format) => rules.formats?.includes(`image/${format}`)) : BOTH,
    fileName: fileNameOf(source),
  }
}

/**
 * Parses a request for an image. Returns undefined for any other request, which includes frameworks' image paths if the
 * deployment has no `images` and answers them itself.
 *
 * path: as received. Throws ImageRefusal with a sentence on what is wrong (D88).
 */
export function readImageRequest(path: string, query: string, policy: ImagePolicy): ImageRequest | undefined {
  if (path.startsWith(PLATFORM_PREFIX)) return readPlatformRequest(path, new URLSearchParams(query), policy)
  if (policy.rules && FRAMEWORK_PATH.test(path))
    return readFrameworkRequest(new URLSearchParams(query), policy, policy.rules)
  return undefined
}

/** True for paths that request images. */
export const isImagePath = (path: string, { rules }: ImagePolicy): boolean =>
  path.startsWith(PLATFORM_PREFIX) || (rules !== undefined && FRAMEWORK_PATH.test(path))

/** Chooses the output format for a client: the best one in its Accept header, else the source's own. */
export function chooseFormat(
  format: ImageRequest['format'],
  accept: string | undefined,
): Pick<ImageWish, 'format' | 'instead'> {
  if (typeof format === 'string') return { format }
  const named = (accept ?? '').split(',').flatMap((entry) => {
    const [type = '', ...parameters] = entry.split(';')
    const isRefused = parameters.some((parameter) => /^\s*q=0(?:\.0*)?\s*$/i.test(parameter))
    return isRefused ? [] : [type.trim().toLowerCase()]
  })
  const [best = 'original', next] = format.filter((each) => named.includes(`image/${each}`))
  return { format: best, ...(next === 'webp' && { instead: next }) }
}
