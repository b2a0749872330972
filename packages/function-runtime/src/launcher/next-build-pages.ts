import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { EdgeCache } from './edge-cache.ts'

/** Next.js's description of the page it asks for. */
export interface PageContext {
  isFallback?: boolean
  isRoutePPREnabled?: boolean
}

/** A page as Next.js stores and reads it; value null: there is no such page. */
export interface StoredPage {
  value: unknown
  cacheControl?: unknown
}

interface FoundPage extends StoredPage {
  lastModified?: number
}

interface FileSystemCache {
  get(name: string, context: PageContext): Promise<FoundPage | null>
}

const inNext = 'next/dist/server/lib/incremental-cache'

/** The tags of a page, which Next.js puts into a header of it. */
export function tagsOfPage(page: unknown): string[] {
  const headers = (page as { headers?: Record<string, unknown> } | null)?.headers
  const tags = headers?.['x-next-cache-tags']
  return typeof tags === 'string' && tags !== '' ? tags.split(',') : []
}

/** Pages that the build of a Next.js application left in its folder, as Next.js itself reads them. */
export class NextBuildPages {
  readonly #files: FileSystemCache
  readonly #staleTags: Map<string, { stale?: number; expired?: number }>
  readonly #builtAt: number

  /** options: the options of Next.js for its cache handler. undefined if there are none, or their shape is unknown. */
  static of(options: { serverDistDir?: string }, builtAt: number): NextBuildPages | undefined {
    if (options.serverDistDir === undefined) return undefined
    try {
      const require = createRequire(join(options.serverDistDir, 'index.js'))
      const { default: Files } = require(`${inNext}/file-system-cache.js`) as {
        default: new (options: object) => FileSystemCache
      }
      const { tagsManifest } = require(`${inNext}/tags-manifest.external.js`) as {
        tagsManifest: Map<string, { stale?: number }>
      }
      return new NextBuildPages(new Files({ ...options, flushToDisk: false }), tagsManifest, builtAt)
    } catch (error) {
      console.warn('The pages of the build are made anew, since Next.js could not read them:', error)
      return undefined
    }
  }

  private constructor(files: FileSystemCache, staleTags: Map<string, { stale?: number }>, builtAt: number) {
    this.#files = files
    this.#staleTags = staleTags
    this.#builtAt = builtAt
  }

  /** Finds a page of the build. undefined if there is none, or if one of its tags has expired since. */
  async find(cache: EdgeCache, name: string, context: PageContext): Promise<FoundPage | undefined> {
    const page = await this.#files.get(name, context)
    if (!page) return undefined
    const tags = tagsOfPage(page.value)
    // Every revalidation in a deployment is later than its build.
    const verdict = cache.judge(tags, 0)
    if (verdict === 'expired') return undefined
    if (verdict === 'stale') this.markStale(cache, tags)
    // The file's own time is that of this machine's copy.
    return { ...page, lastModified: this.#builtAt }
  }

  /** Tells Next.js to serve pages with these tags stale and regenerate them. */
  markStale(cache: EdgeCache, tags: readonly string[]): void {
    for (const name of tags) {
      const tag = cache.tag(name)
      // Next.js compares with less-than; this covers computations that began in the same millisecond.
      if (tag) this.#staleTags.set(name, { stale: cache.wallTimeOf(tag.staleAt) + 1 })
    }
  }
}
