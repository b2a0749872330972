import { buildOutput, type FunctionSource, handler } from './functions.ts'
import { FILE, LINK, type ZipEntry } from './zip.ts'

const FUNCTIONS = '.vercel/output/functions'
export const TOKEN = 'a-token-that-nobody-guesses'

/** A Prerender Function of a test: its config, and what its build left to be shown first. */
export interface PrerenderSource {
  config?: Record<string, unknown>
  fallback?: string
}

/**
 * A Function that says how often it was called, for what, and as whom; and lets a test choose how it answers, by the query of `/control`: what is
 * `held` answers once `/control` is asked without it.
 */
const counting = handler(`
  globalThis.calls = (globalThis.calls ?? 0) + 1
  const url = new URL(req.url, 'http://page')
  const wanted = globalThis.wanted ?? {}
  if (url.searchParams.has('renew')) {
    // As Next.js names what its server can do, and asks for what the platform adds.
    const methods = globalThis[Symbol.for('@next/router-server-methods')]
    methods[''] ??= {}
    const opts = { unstable_onlyGenerated: url.searchParams.has('only') }
    const asked = { urlPath: url.searchParams.get('renew'), headers: { 'x-prerender-revalidate': ${JSON.stringify(TOKEN)} }, opts }
    res.end(await methods[''].revalidate(asked).then(() => 'renewed', String))
    return
  }
  if (url.pathname === '/control') {
    globalThis.wanted = Object.fromEntries(url.searchParams)
    if (!url.searchParams.has('held')) for (const open of globalThis.gates?.splice(0) ?? []) open()
    res.end(String(globalThis.calls))
    return
  }
  if (wanted.held) await new Promise((open) => (globalThis.gates ??= []).push(open))
  await new Promise((done) => setTimeout(done, Number(wanted.wait ?? 0)))
  res.statusCode = Number(wanted.status ?? 200)
  if (wanted.control) res.setHeader('cache-control', wanted.control)
  if (wanted.tags) res.setHeader('x-next-cache-tags', wanted.tags)
  if (wanted.cookie) res.setHeader('set-cookie', wanted.cookie)
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ n: globalThis.calls, method: req.method, url: req.url, headers: req.headers }))`)

/** What `counting` answered. */
export interface Counted {
  n: number
  method: string
  url: string
  headers: Record<string, string>
}

/** Build Output of one Function that answers at several paths, whose pages are kept as they say. */
export function prerendered(
  pages: Record<string, PrerenderSource>,
  {
    code = counting,
    routes = [],
    files,
  }: { code?: string | FunctionSource; routes?: object[]; files?: Record<string, string> } = {},
): ZipEntry[] {
  return [
    ...buildOutput({ control: code }, { routes, ...(files && { files }) }),
    ...Object.entries(pages).flatMap(([path, { config, fallback }]): ZipEntry[] => {
      const name = path.slice(path.lastIndexOf('/') + 1)
      const up = '../'.repeat(path.split('/').length - 1)
      const written = {
        expiration: 60,
        bypassToken: TOKEN,
        ...(fallback !== undefined && { fallback: `${name}.prerender-fallback.html` }),
        ...config,
      }
      return [
        { name: `${FUNCTIONS}/${path}.func`, content: `${up}control.func`, mode: LINK },
        { name: `${FUNCTIONS}/${path}.prerender-config.json`, content: JSON.stringify(written) },
        ...(fallback === undefined
          ? []
          : [{ name: `${FUNCTIONS}/${path}.prerender-fallback.html`, content: fallback, mode: FILE }]),
      ]
    }),
  ]
}
