import { registerHooks } from 'node:module'
import { fetchBySocket } from './socket-fetch.ts'

const kept = { entriesMax: 200, bodyBytesMax: 1 << 20, bytesMax: 16 << 20 }

interface CachedAnswer {
  body: Uint8Array<ArrayBuffer>
  status: number
  headers: [string, string][]
  expiresAt: number
}

/** The binding that reads the files of the Function's deployment. */
export function openAssets(socketPath: string): {
  fetch(input: Request | string | URL, init?: RequestInit): Promise<Response>
} {
  return { fetch: (input, init) => fetchBySocket(socketPath, new Request(input, init)) }
}

/** Defines `caches`: small, and in the memory of the slot. */
export function offerCaches(): void {
  const opened = new Map<string, SlotCache>()
  const open = (name: string) => {
    const cache = opened.get(name) ?? new SlotCache()
    opened.set(name, cache)
    return cache
  }
  const value = { default: open('default'), open: async (name: string) => open(`named ${name}`) }
  Object.defineProperty(globalThis, 'caches', { value, configurable: true, writable: true })
}

class SlotCache {
  readonly #entries = new Map<string, CachedAnswer>()
  #bytes = 0

  async match(input: Request | string | URL): Promise<Response | undefined> {
    const key = this.#key(input)
    const entry = key === undefined ? undefined : this.#entries.get(key)
    if (key === undefined || entry === undefined) return
    this.#remove(key)
    if (entry.expiresAt <= Date.now()) return
    this.#add(key, entry)
    return new Response(entry.body, { status: entry.status, headers: entry.headers })
  }

  async put(input: Request | string | URL, answer: Response): Promise<void> {
    const key = this.#key(input)
    if (key === undefined) throw new TypeError('Only answers to GET can be kept')
    if (answer.status === 206) throw new TypeError('A partial answer cannot be kept')
    const control = answer.headers.get('cache-control') ?? ''
    const body = new Uint8Array(await answer.arrayBuffer())
    if (/\b(?:no-store|private)\b/i.test(control) || answer.headers.has('set-cookie')) return
    if (body.byteLength > kept.bodyBytesMax) return
    const seconds = /\bs-maxage=(\d+)/i.exec(control)?.[1] ?? /\bmax-age=(\d+)/i.exec(control)?.[1]
    const expiresAt = seconds === undefined ? Infinity : Date.now() + Number(seconds) * 1_000
    this.#remove(key)
    this.#add(key, { body, status: answer.status, headers: [...answer.headers], expiresAt })
    while (this.#entries.size > kept.entriesMax || this.#bytes > kept.bytesMax) {
      this.#remove(this.#entries.keys().next().value!)
    }
  }

  async delete(input: Request | string | URL): Promise<boolean> {
    const key = this.#key(input)
    return key !== undefined && this.#remove(key)
  }

  #key(input: Request | string | URL): string | undefined {
    if (input instanceof Request && input.method !== 'GET') return
    return input instanceof Request ? input.url : new URL(input).href
  }

  #add(key: string, entry: CachedAnswer): void {
    this.#entries.set(key, entry)
    this.#bytes += entry.body.byteLength
  }

  #remove(key: string): boolean {
    this.#bytes -= this.#entries.get(key)?.body.byteLength ?? 0
    return this.#entries.delete(key)
  }
}

/** Rejects imports of modules that only Cloudflare has, with a sentence that names them. */
export function refuseCloudflareModules(): void {
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith('cloudflare:')) {
        throw new Error(`The module "${specifier}" is not available here: the Function has to do without it`)
      }
      return next(specifier, context)
    },
  })
}
