import { isSettable } from './answer.ts'
import { canMatchBelow, compileHostname, isHostPattern } from './host-pattern.ts'
import type { HeaderRule, HostHeaderRule, SiteRules } from './manifest.ts'
import { normalizeWrittenPath } from './normalize-path.ts'
import type { Warn } from './parse-redirects.ts'
import { compilePath } from './route-static-site.ts'
import { Warnings } from './warnings.ts'

/** Cloudflare Pages' limits. */
const RULES_MAX = 100
const LINE_LENGTH_MAX = 2_000

/** host: of the visitors that the rule is for, as written and with its port; undefined: for all. */
export type WrittenRule = HeaderRule & { host?: string }

interface ParseOptions {
  /** Behind the label of each hostname of the platform. Without it, any host of a rule is taken. */
  appsHostname?: string
}

/**
 * Reads `_headers` as Cloudflare Pages documents it: a path on a line, or a URL for one host alone, then indented `name: value`, or
 * `! name` to remove a header.
 *
 * Never throws: an invalid line is skipped with a warning that names its number. So is a rule for a host that no visitor can ask for.
 */
export function parseHeaders(
  text: string,
  { appsHostname }: ParseOptions = {},
): { headers: WrittenRule[]; warnings: string[] } {
  const headers: WrittenRule[] = []
  const warnings = new Warnings()
  let rule: WrittenRule | undefined
  let isLeftOut = false
  for (const [index, raw] of text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .entries()) {
    const line = raw.trim()
    const warn: Warn = (reason) => {
      warnings.add(`_headers line ${index + 1} is left out: ${reason}.`)
      return undefined
    }
    if (line === '' || line.startsWith('#')) continue
    const isAddress = /^(?:\/|[a-z]+:\/\/)/i.test(line)
    const isReadable = isWithinLimits(line, warn)
    if (isAddress) {
      rule = isReadable ? readAddress(line, headers.length, appsHostname, warn) : undefined
      isLeftOut = rule === undefined
      if (rule !== undefined) headers.push(rule)
    } else if (isReadable && rule !== undefined) readHeader(line, rule, warn)
    // One warning is enough for a rule with its headers.
    else if (isReadable && !isLeftOut) warn('a path comes before headers')
  }
  return { headers: headers.filter(({ set, unset }) => set.length > 0 || unset.length > 0), warnings: warnings.list() }
}

function isWithinLimits(line: string, warn: Warn): boolean {
  if (line.length > LINE_LENGTH_MAX) warn(`it is longer than ${LINE_LENGTH_MAX} characters`)
  else if (line.includes('\0')) warn('it holds a NUL')
  else return true
  return false
}

function readAddress(
  line: string,
  count: number,
  appsHostname: string | undefined,
  warn: Warn,
): WrittenRule | undefined {
  if (count >= RULES_MAX) return warn(`there are ${RULES_MAX} rules already`)
  const [, scheme, host, path = '/'] = /^(?:([a-z]+):\/\/([^/]*))?(\/.*)?$/i.exec(line) ?? []
  if (scheme !== undefined && !/^https?$/i.test(scheme)) return warn('its address is neither http nor https')
  if (host !== undefined && !isHostPattern(host)) return warn('its host cannot be read')
  if (!compilesTogether(host, path)) return warn('a name, or *, is in the path twice')
  if (host === undefined) return { path, set: [], unset: [] }
  if (appsHostname !== undefined && !canMatchBelow(host, appsHostname))
    return warn(`no hostname of a site here matches ${host}`)
  return { host, path, set: [], unset: [] }
}

/** True if each name occurs once in host and path together, and `*` once in either. Values get the path's `*` as `:splat`. */
function compilesTogether(host: string | undefined, path: string): boolean {
  try {
    const namesIn = (pattern: RegExp): string[] => pattern.source.match(/\(\?<\w+>/g) ?? []
    const inPath = namesIn(compilePath(normalizeWrittenPath(path)))
    return (
      host === undefined ||
      !namesIn(compileHostname(host)).some((name) => name !== '(?<splat>' && inPath.includes(name))
    )
  } catch {
    // Two groups with the same name.
    return false
  }
}

/** Puts rules for some hosts apart from the others, as manifests have them. */
export function splitByHost(rules: readonly WrittenRule[]): Pick<SiteRules, 'headers' | 'hostHeaders'> {
  const headers: HeaderRule[] = []
  const hostHeaders: HostHeaderRule[] = []
  for (const { host, ...rule } of rules)
    if (host === undefined) headers.push(rule)
    else hostHeaders.push({ ...rule, host, after: headers.length })
  return hostHeaders.length === 0 ? { headers } : { headers, hostHeaders }
}

function readHeader(line: string, rule: HeaderRule, warn: Warn): void {
  if (line.startsWith('!')) {
    const name = line.slice(1).trim().toLowerCase()
    if (isSettable(name)) rule.unset.push(name)
    else warn('it names no header')
    return
  }
  const index = line.indexOf(':')
  const name = line.slice(0, Math.max(index, 0)).trim().toLowerCase()
  const value = line.slice(index + 1).trim()
  if (index === -1 || value === '') warn('a header is a name, a colon and a value')
  else if (!isSettable(name)) warn(`${JSON.stringify(name)} is no header that a site may set`)
  else if (/[^\t\x20-\x7E]/.test(value)) warn('the value has a character that headers cannot hold')
  else rule.set.push([name, value])
}
