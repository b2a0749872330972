import type { SiteRules } from './manifest.ts'
import { normalizeWrittenPath } from './normalize-path.ts'
import { compilePath, isPageFallback } from './route-static-site.ts'
import { Warnings } from './warnings.ts'

/** Cloudflare Pages' limits. */
const STATIC_MAX = 2_000
const DYNAMIC_MAX = 100
const LINE_LENGTH_MAX = 2_000
const STATUSES = new Set([200, 301, 302, 303, 307, 308])
const STATUS_DEFAULT = '302'

/** Reports a skipped line. */
export type Warn = (reason: string) => undefined

/**
 * Reads `_redirects` as Cloudflare Pages documents it: `from to [status]` per line, which may contain `*` and `:name`.
 *
 * Never throws: an invalid line is skipped with a warning that names its number. The first rule for a path wins.
 */
export function parseRedirects(text: string): { redirects: SiteRules['redirects']; warnings: string[] } {
  const redirects: SiteRules['redirects'] = []
  const warnings = new Warnings()
  const seen = new Set<string>()
  let fixed = 0
  let dynamic = 0
  for (const [index, line] of text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .entries()) {
    const warn: Warn = (reason) => {
      warnings.add(`_redirects line ${index + 1} is left out: ${reason}.`)
      return undefined
    }
    const rule = readLine(line.trim(), warn)
    if (rule === undefined) continue
    if (seen.has(rule.from)) {
      warn(`an earlier line is for ${rule.from}`)
      continue
    }
    const isDynamic = dynamic > 0 || /[*:]/.test(rule.from)
    if (isDynamic ? dynamic >= DYNAMIC_MAX : fixed >= STATIC_MAX) {
      warn(
        isDynamic ? `there are ${DYNAMIC_MAX} dynamic redirects already` : `there are ${STATIC_MAX} redirects already`,
      )
      continue
    }
    if (isDynamic) dynamic++
    else fixed++
    seen.add(rule.from)
    redirects.push(rule)
  }
  return { redirects, warnings: warnings.list() }
}

function readLine(line: string, warn: Warn): SiteRules['redirects'][number] | undefined {
  if (line === '' || line.startsWith('#')) return undefined
  if (line.length > LINE_LENGTH_MAX) return warn(`it is longer than ${LINE_LENGTH_MAX} characters`)
  if (line.includes('\0')) return warn('it holds a NUL')
  const words = line.split(/\s+/)
  const commentAt = words.findIndex((word, index) => index >= 2 && word.startsWith('#'))
  const [from = '', to = '', statusText = STATUS_DEFAULT, ...more] =
    commentAt === -1 ? words : words.slice(0, commentAt)
  if (to === '' || more.length > 0) return warn('it takes a path, a destination and at most a status')
  const status = Number(statusText)
  if (!STATUSES.has(status)) return warn(`status ${statusText} is none of ${[...STATUSES].join(', ')}`)
  if (!from.startsWith('/')) return warn('the path begins with a slash')
  const isAbsolute = /^(?:https?:)?\/\//i.test(to)
  if (!isAbsolute && !to.startsWith('/')) return warn('the destination is a path or an http address')
  if (isAbsolute && !URL.canParse(to, 'https://a.invalid')) return warn('the destination is no address')
  if (isAbsolute && status === 200) return warn('a rewrite (200) leads to a path of the same site')
  if (status !== 200 && isPageFallback(from, to) && !isAbsolute) return warn('it would redirect in a circle')
  if (!compiles(from)) return warn('a name, or *, is in the path twice')
  return { from: from.split(/[?#]/)[0] ?? from, to, status }
}

/** True if a path contains `*` and each name at most once. */
function compiles(path: string): boolean {
  try {
    return compilePath(normalizeWrittenPath(path)) instanceof RegExp
  } catch {
    // Two groups with the same name.
    return false
  }
}
