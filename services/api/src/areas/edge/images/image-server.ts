import { createHash } from 'node:crypto'
import {
  ImageFailure,
  INPUT_BYTES_MAX,
  type ImageTransformer,
  type ImageWish,
} from '@platform/image-transformer/image-transformer'
import { contentTypeOfKind, sniffImage } from '@platform/image-transformer/sniff-image'
import { entriesMax } from '@platform/runtime/entries-max'
import type { Notifications } from '@platform/runtime/notifications'
import { LRUCache } from 'lru-cache'
import type { EdgeDeps } from '../deps.ts'
import { type Epoch, openImageEpochs } from './epochs.ts'
import { fetchSource, type FetchedSource } from './fetch-source.ts'
import { ImageRefusal, tooLongSource } from './image-refusal.ts'
import { type ImagePlaces, openImagePlaces } from './image-places.ts'
import { chooseFormat, type ImagePolicy, type ImageRequest } from './image-request.ts'
import type { ImageAnswer, ImageOrigin, ImageServer, SourceFile } from './images.ts'
import { FRESH_SECONDS_MIN, minimumSecondsOf, readMaxAge } from './max-age.ts'
import { findVariant, storeVariant, touchVariant } from './variants.ts'

/** Memory for variants. Longer ones are read from the store each time. */
const KEPT_BYTES_MAX = 67_108_864
const KEPT_ONE_BYTES_MAX = 2_097_152
const BYTES_OF_ENTRY = 500
/** Number of remembered sources and failures. */
const SOURCES_MAX = 10_000
const FAILURES_MAX = 1_000
/** How long a failed image is not retried: it might take its full 5 s each time. */
const FAILURE_MS = 60_000
/** How often the row of an image in memory is marked as used. */
const TOUCHED_MS = 3_600_000
/** 132 of the 256 bits, as in our other entity tags. */
const TAG_LENGTH = 22

/** A source as of its last fetch. */
interface KnownSource {
  /** SHA-256 of its content. */
  hash: string
  /** From the source's own headers. */
  maxAgeSeconds: number
  isImmutable: boolean
  /** By the platform's clock; Infinity: it never changes. */
  freshUntil: number
}

interface Kept {
  contentType: string
  bytes: number
  /** undefined: too long to keep in memory. */
  content: Buffer | undefined
  blobId: string | undefined
  touchedAt: number
}

type ServerDeps = Pick<EdgeDeps, 'db' | 'now' | 'blobs' | 'logger' | 'guardedFetch'> & {
  notifications: Notifications
  transformer: ImageTransformer
}

/** A requested image: its source, the requested transformation, and the purge epochs. */
interface Wanted {
  request: ImageRequest
  origin: ImageOrigin
  format: Pick<ImageWish, 'format' | 'instead'>
  file: SourceFile | undefined
  /** The source's name; for a file without the query, which it ignores. */
  name: string
  epoch: Epoch
  /** Identifies everything except the transformation. */
  scope: string
}

const refusalOf = {
  not_an_image: 'image_unreadable',
  too_large: 'image_too_large',
  too_slow: 'image_timeout',
  busy: 'image_busy',
} as const

/** Opens the image server. Nothing is started before the first image has to be generated. */
export function openImageServer(deps: ServerDeps): ImageServer {
  const { now, logger, transformer } = deps
  const kept = new LRUCache<string, Kept>({
    maxSize: KEPT_BYTES_MAX,
    sizeCalculation: ({ content }) => (content?.length ?? 0) + BYTES_OF_ENTRY,
  })
  const sources = new LRUCache<string, KnownSource>({ ...entriesMax(SOURCES_MAX) })
  /** Contents that are sent unchanged, by hash. */
  const unchanging = new LRUCache<string, true>({ ...entriesMax(SOURCES_MAX) })
  const failures = new LRUCache<string, ImageRefusal>({ ...entriesMax(FAILURES_MAX), ttl: FAILURE_MS })
  const lookUps = new Map<string, Promise<Kept | undefined>>()
  const fetches = new Map<string, Promise<FetchedSource>>()
  const works = new Map<string, Promise<{ source: KnownSource; variant: Kept; key: Buffer }>>()
  const places = openImagePlaces()

  // Keys of variants and sources contain the epoch, so entries from before a purge are never found again: deleting them frees
  // memory.
  const epochs = openImageEpochs(deps, (deploymentId) => {
    for (const key of kept.keys()) if (key.startsWith(deploymentId)) kept.delete(key)
  })

  /** The key of a variant: a hash of everything it depends on. */
  function keyOf({ name, epoch, request, format }: Wanted, { hash }: KnownSource): Buffer {
    const { width = null, height = null, fit, quality } = request.wish
    const wish = unchanging.has(hash) ? null : [width, height, fit, format.format, format.instead ?? null, quality]
    return createHash('sha256')
      .update(JSON.stringify([epoch.deployment, epoch.source, name, hash, wish]))
      .digest()
  }

  const keptKeyOf = (deploymentId: string, key: Buffer): string => `${deploymentId}${key.toString('base64url')}`

  async function readKept(deploymentId: string, key: Buffer, name: string): Promise<Kept | undefined> {
    try {
      const row = await findVariant(deps, deploymentId, key)
      if (!row) return undefined
      const { contentType, bytes, blobId } = row
      const isShort = bytes <= KEPT_ONE_BYTES_MAX
      const content = row.content ?? (isShort ? await readBlob(blobId, bytes) : undefined)
      if (isShort && !content) return undefined
      const variant = { contentType, bytes, content, blobId, touchedAt: row.lastUsedAt.getTime() }
      kept.set(name, variant)
      return variant
    } finally {
      lookUps.delete(name)
    }
  }

  /** Returns undefined if the blob was evicted since its row was read, or if the store fails. */
  async function readBlob(blobId: string, bytes: number): Promise<Buffer | undefined> {
    try {
      return Buffer.concat(await Array.fromAsync(deps.blobs.read(blobId, { start: 0, end: bytes - 1 }, 'owned')))
    } catch (error) {
      logger.info({ err: error, blobId }, 'a stored image could not be read and is made again')
      return undefined
    }
  }

  /** Finds a variant in memory, else in the store; concurrent look-ups of the same one are shared. */
  async function find(deploymentId: string, key: Buffer): Promise<Kept | undefined> {
    const name = keptKeyOf(deploymentId, key)
    let variant = kept.get(name)
    if (!variant) {
      let lookUp = lookUps.get(name)
      if (!lookUp) lookUps.set(name, (lookUp = readKept(deploymentId, key, name)))
      variant = await lookUp
    }
    const nowMs = now().getTime()
    if (variant && nowMs - variant.touchedAt > TOUCHED_MS) {
      variant.touchedAt = nowMs
      touchVariant(deps, deploymentId, key).catch((error: unknown) => {
        logger.warn({ err: error }, 'the use of an image was not noted')
      })
    }
    return variant
  }

  const sourceKeyOf = ({ scope, origin }: Wanted): string => `${scope} ${origin.host}`

  /** Fetches a source, once for all concurrent requests. */
  function fetchOnce(wanted: Wanted): Promise<FetchedSource> {
    const key = sourceKeyOf(wanted)
    let fetching = fetches.get(key)
    if (!fetching) {
      fetching = fetchSource(deps, wanted.request.source, wanted.origin, wanted.origin.policy)
        .then((fetched) => {
          noteSource(key, wanted.origin.policy, fetched)
          return fetched
        })
        .catch((error: unknown) => {
          // A missing source is no longer served; after any other failure the known one stays.
          if (error instanceof ImageRefusal && error.code === 'image_source_missing') sources.delete(key)
          throw error
        })
        .finally(() => fetches.delete(key))
      fetches.set(key, fetching)
    }
    return fetching
  }

  function noteSource(key: string, { rules }: ImagePolicy, { hash, maxAgeSeconds, isImmutable }: FetchedSource): void {
    const seconds = Math.max(maxAgeSeconds, minimumSecondsOf(rules))
    sources.set(key, { hash, maxAgeSeconds, isImmutable, freshUntil: now().getTime() + seconds * 1_000 })
  }

  /** Refetches an outdated source in the background, and regenerates the image if it has changed. */
  function renew(wanted: Wanted, known: KnownSource): void {
    makeOnce(wanted, places.takeNow).catch((error: unknown) => {
      // If no place is free right now, the next request tries again.
      if (error instanceof ImageRefusal && error.code === 'image_busy') return
      known.freshUntil = now().getTime() + FRESH_SECONDS_MIN * 1_000
      logger.info({ err: error, deploymentId: wanted.origin.deploymentId }, 'an image was not renewed')
    })
  }

  async function readSource(wanted: Wanted): Promise<{ source: KnownSource; content: Buffer }> {
    const { file } = wanted
    if (file && file.bytes > INPUT_BYTES_MAX) throw new ImageRefusal('image_too_large', tooLongSource)
    if (file) return { source: sourceOfFile(file), content: await file.read() }
    const { content, ...fetched } = await fetchOnce(wanted)
    return { source: { ...fetched, freshUntil: 0 }, content }
  }

  async function transform(
    wanted: Wanted,
    hash: string,
    content: Buffer,
  ): Promise<{ content: Buffer; contentType: string }> {
    const { request, format, origin } = wanted
    const kind = sniffImage(content)
    const asItIs = () => ({ content, contentType: contentTypeOfKind(kind!) })
    if (kind === undefined) throw new ImageRefusal('image_unreadable', 'The source is not an image that can be read.')
    if (kind === 'svg') {
      if (origin.policy.rules?.dangerouslyAllowSVG !== true)
        throw new ImageRefusal('image_unreadable', 'The source is an SVG, which this deployment does not allow.')
      unchanging.set(hash, true)
      return asItIs()
    }
    const made = await transformer.transform(content, { ...request.wish, ...format })
    if (made.kind === 'unchanged') {
      unchanging.set(hash, true)
      return asItIs()
    }
    const isSmaller = made.content.length < content.length
    return isSmaller || typeof request.format === 'string' || !made.isSourceAlike ? made : asItIs()
  }

  /** Generates an image, or finds it once its source has been fetched. */
  async function make(
    wanted: Wanted,
    takePlace: ImagePlaces['take' | 'takeNow'],
  ): Promise<{ source: KnownSource; variant: Kept; key: Buffer }> {
    const { deploymentId, organizationId } = wanted.origin
    const leave = await takePlace(wanted.origin)
    try {
      const { source, content: sourceContent } = await readSource(wanted)
      let key = keyOf(wanted, source)
      const failure = failures.get(keptKeyOf(deploymentId, key))
      if (failure) throw failure
      const before = wanted.file ? undefined : await find(deploymentId, key)
      if (before) return { source, variant: before, key }
      const { content, contentType } = await transform(wanted, source.hash, sourceContent).catch((error: unknown) => {
        if (!(error instanceof ImageRefusal) && !(error instanceof ImageFailure)) throw error
        const refusal =
          error instanceof ImageFailure ? new ImageRefusal(refusalOf[error.code], `${error.message}.`) : error
        if (refusal.code !== 'image_busy') failures.set(keptKeyOf(deploymentId, key), refusal)
        throw refusal
      })
      // Content that cannot be transformed is a single variant, whatever was requested.
      key = keyOf(wanted, source)
      const { name, epoch } = wanted
      const { length: bytes } = content
      const variant: Kept = { contentType, bytes, content, blobId: undefined, touchedAt: now().getTime() }
      const stored = { deploymentId, organizationId, key, source: name, content, contentType, epoch }
      const isCurrent = await storeVariant(deps, stored).catch((error: unknown) => {
        // The visitor still gets the image, and so do the next ones while it is in memory.
        logger.warn({ err: error, deploymentId }, 'an image was not stored')
        return true
      })
      if (!isCurrent) epochs.forget(deploymentId)
      else if (bytes <= KEPT_ONE_BYTES_MAX) kept.set(keptKeyOf(deploymentId, key), variant)
      return { source, variant, key }
    } finally {
      leave()
    }
  }

  /** Generates an image, once for all concurrent requests. */
  function makeOnce(wanted: Wanted, takePlace: ImagePlaces['take' | 'takeNow']) {
    const { width, height, fit, quality } = wanted.request.wish
    const key = `${sourceKeyOf(wanted)} ${wanted.file?.sha256} ${width} ${height} ${fit} ${quality} ${wanted.format.format} ${wanted.format.instead}`
    let work = works.get(key)
    if (!work) works.set(key, (work = make(wanted, takePlace).finally(() => works.delete(key))))
    return work
  }

  /** The bytes of a variant; undefined if they were evicted. */
  async function contentOf({ content, blobId, bytes }: Kept): Promise<ImageAnswer['content'] | undefined> {
    if (content || blobId === undefined) return content
    const chunks = deps.blobs.read(blobId, { start: 0, end: bytes - 1 }, 'owned')[Symbol.asyncIterator]()
    try {
      const first = await chunks.next()
      return withFirst(first, chunks)
    } catch (error) {
      logger.info({ err: error, blobId }, 'a stored image could not be read and is made again')
      return undefined
    }
  }

  const sourceOfFile = ({ sha256, cacheControl }: SourceFile): KnownSource => ({
    hash: sha256,
    ...readMaxAge(cacheControl),
    freshUntil: Infinity,
  })

  return {
    async answer(request, origin, { accept, wantsContent }) {
      const { source } = request
      const { deploymentId, policy } = origin
      const file = source.kind === 'local' ? origin.findFile(source.path, source.query) : undefined
      const name = file && source.kind === 'local' ? source.path : source.name
      const epoch = await epochs.find(deploymentId, name)
      const scope = `${deploymentId} ${epoch.deployment} ${epoch.source} ${name}`
      const wanted: Wanted = { request, origin, format: chooseFormat(request.format, accept), file, name, epoch, scope }

      /** Returns undefined if the bytes were evicted. */
      async function answerWith(
        { maxAgeSeconds, isImmutable }: KnownSource,
        variant: Kept,
        key: Buffer,
        cacheStatus: ImageAnswer['cacheStatus'],
      ): Promise<ImageAnswer | undefined> {
        const etag = key.toString('base64url').slice(0, TAG_LENGTH)
        const isWanted = wantsContent(etag)
        const content = isWanted ? await contentOf(variant) : undefined
        if (isWanted && !content) {
          kept.delete(keptKeyOf(deploymentId, key))
          return undefined
        }
        const seconds = cacheStatus === 'stale' ? 0 : Math.max(maxAgeSeconds, policy.rules?.minimumCacheTTL ?? 0)
        const cacheControl = `public, max-age=${seconds}, ${isImmutable ? 'immutable' : 'must-revalidate'}`
        return { content, bytes: variant.bytes, contentType: variant.contentType, etag, cacheStatus, cacheControl }
      }

      const known = file ? sourceOfFile(file) : sources.get(sourceKeyOf(wanted))
      if (known) {
        const key = keyOf(wanted, known)
        const isFresh = known.freshUntil > now().getTime()
        const failure = isFresh ? failures.get(keptKeyOf(deploymentId, key)) : undefined
        if (failure) throw failure
        const variant = await find(deploymentId, key)
        const answer = variant && (await answerWith(known, variant, key, isFresh ? 'hit' : 'stale'))
        if (answer && !isFresh) renew(wanted, known)
        if (answer) return answer
      }
      const { source: knownSource, variant, key } = await makeOnce(wanted, places.take)
      const answer = await answerWith(knownSource, variant, key, 'miss')
      if (!answer) throw new ImageRefusal('image_busy', 'The image had to make room for others.')
      return answer
    },
    forget: (deploymentId) => epochs.forget(deploymentId),
    close: () => transformer.close(),
  }
}

async function* withFirst(first: IteratorResult<Buffer>, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    for (let next = first; next.done !== true; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}
