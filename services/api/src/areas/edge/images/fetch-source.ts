import { createHash } from 'node:crypto'
import { RefusedAddress, UnreachableOrigin } from '@platform/guarded-fetch/guarded-fetch'
import { INPUT_BYTES_MAX } from '@platform/image-transformer/image-transformer'
import type { EdgeDeps } from '../deps.ts'
import { LOOP_TOKEN } from '../../../http/cdn-loop.ts'
import { ImageRefusal, tooLongSource } from './image-refusal.ts'
import { type ImagePolicy, type ImageSource, readImageSource, requireAllowed } from './image-request.ts'
import type { SourceAnswer, SourceReader } from './images.ts'
import { readMaxAge } from './max-age.ts'

const REDIRECTS = new Set([301, 302, 303, 307, 308])
const REDIRECTS_MAX = 3
/** For the whole fetch, redirects included. */
const DEADLINE_MS = 10_000

/** Requests for sources of images do not count as visits. */
export const sourceHeaders = { accept: 'image/*,*/*;q=0.1', 'user-agent': 'platform-images' }

/** A source as just fetched. */
export interface FetchedSource {
  content: Buffer
  /** SHA-256 of the content, in hex. */
  hash: string
  maxAgeSeconds: number
  isImmutable: boolean
}

const tooLarge = () => new ImageRefusal('image_too_large', tooLongSource)
const failed = (text: string, cause?: unknown) => new ImageRefusal('image_source_failed', text, cause)

async function askRemote(
  { guardedFetch }: Pick<EdgeDeps, 'guardedFetch'>,
  url: string,
  signal: AbortSignal,
): Promise<SourceAnswer> {
  const { status, headers, body } = await guardedFetch.fetch({
    url,
    method: 'GET',
    headers: { ...sourceHeaders, 'accept-encoding': 'identity', 'cdn-loop': LOOP_TOKEN },
    redirectsMax: 0,
    signal,
  })
  const pieces: Buffer[] = []
  let length = 0
  const isWanted = status === 200
  try {
    if (isWanted && Number(headers['content-length'] ?? 0) > INPUT_BYTES_MAX) throw tooLarge()
    for await (const piece of isWanted ? (body as AsyncIterable<Buffer>) : []) {
      length += piece.length
      if (length > INPUT_BYTES_MAX) throw tooLarge()
      pieces.push(piece)
    }
  } finally {
    body.on('error', () => {}).destroy()
  }
  return { status, headers, body: Buffer.concat(pieces, length) }
}

/** Resolves a redirect. Throws ImageRefusal unless the deployment also allows its target as a source. */
function redirected(location: string, from: URL, reader: SourceReader, { sources }: ImagePolicy): ImageSource {
  const url = URL.parse(location, from.href)
  if (!url) throw failed('The source redirects to what is no address.')
  const isOwn = url.host === reader.host
  if (from.protocol === 'https:' && url.protocol === 'http:' && !isOwn)
    throw failed('The source redirects from https to http.')
  try {
    const next = readImageSource(isOwn ? `${url.pathname}${url.search}` : url.href)
    requireAllowed(next, sources)
    return next
  } catch (error) {
    throw failed('The source redirects to one that this deployment does not allow.', error)
  }
}

/**
 * Fetches the source of an image and follows up to three redirects, each of which must be allowed like the source itself. Remote
 * sources go through the guarded fetch. D88: a missing source is `image_source_missing`, any other failure `image_source_failed`.
 *
 * Throws ImageRefusal.
 */
export async function fetchSource(
  deps: Pick<EdgeDeps, 'guardedFetch'>,
  imageSource: ImageSource,
  reader: SourceReader,
  policy: ImagePolicy,
): Promise<FetchedSource> {
  const signal = AbortSignal.timeout(DEADLINE_MS)
  const own = `${reader.protocol}://${reader.host}`
  let source = imageSource
  try {
    for (let redirects = 0; ; redirects++) {
      const { status, headers, body } =
        source.kind === 'local'
          ? await reader.ask(source.path, source.query, signal)
          : await askRemote(deps, source.url, signal)
      const { location } = headers
      if (REDIRECTS.has(status) && typeof location === 'string') {
        if (redirects === REDIRECTS_MAX) throw failed('The source redirects too often.')
        source = redirected(location, new URL(source.name, own), reader, policy)
        continue
      }
      if (status === 404 || status === 410) throw new ImageRefusal('image_source_missing', 'There is no such source.')
      if (status !== 200) throw failed(`The source answered with status ${status}.`)
      if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw failed('The source is compressed.')
      if (body.length > INPUT_BYTES_MAX) throw tooLarge()
      const hash = createHash('sha256').update(body).digest('hex')
      return { content: body, hash, ...readMaxAge([headers['cache-control'] ?? []].flat().join(',')) }
    }
  } catch (error) {
    if (error instanceof ImageRefusal) throw error
    if (signal.aborted) throw new ImageRefusal('image_timeout', 'The source did not answer in time.', error)
    if (error instanceof RefusedAddress || error instanceof UnreachableOrigin)
      throw failed('The source could not be reached.', error)
    if (source.kind === 'remote') throw failed('The source broke off its answer.', error)
    throw error
  }
}
