import { isSettable } from './answer.ts'
import type { SiteRules } from './manifest.ts'
import { compiles, type Warn } from './parse-redirects.ts'
import { Warnings } from './warnings.ts'

/** Cloudflare Pages' limits. */
const RULES_MAX = 100
const LINE_LENGTH_MAX = 2_000

type Rule = SiteRules['headers'][number]

/**
 * Reads `_headers` as Cloudflare Pages documents it: a path on a line, then indented `name: value`, or `! name` to remove a header.
 *
 * Never throws: an invalid line is skipped with a warning that names its number. So is a rule for another host, since a site does
 * not know its hostnames.
 */
export function parseHeaders(text: string): { headers: Rule[]; warnings: string[] } {
  const headers: Rule[] = []
  const warnings = new Warnings()
  let rule: Rule | undefined
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
    if (line.length > LINE_LENGTH_MAX) warn(`it is longer than ${LINE_LENGTH_MAX} characters`)
    else if (line.includes('\0')) warn('it holds a NUL')
    else if (/^(?:\/|[a-z]+:\/\/)/i.test(line)) {
      rule = readPath(line, headers.length, warn)
      if (rule !== undefined) headers.push(rule)
    } else if (rule === undefined) warn('a path comes before headers')
    else readHeader(line, rule, warn)
  }
  return { headers: headers.filter(({ set, unset }) => set.length > 0 || unset.length > 0), warnings: warnings.list() }
}

function readPath(line: string, count: number, warn: Warn): Rule | undefined {
  if (count >= RULES_MAX) return warn(`there are ${RULES_MAX} rules already`)
  if (!line.startsWith('/')) return warn('rules are for paths of the site, not for hosts')
  if (!compiles(line)) return warn('a name, or *, is in the path twice')
  return { path: line, set: [], unset: [] }
}

function readHeader(line: string, rule: Rule, warn: Warn): void {
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
