/** What Next.js writes before and behind each pattern of a middleware: the forms in which the same page is asked for. */
const PREFIX = String.raw`(?:\/(_next\/data\/[^/]{1,}))?`
const SUFFIXES = [String.raw`(\.json)?[\/#\?]?$`, String.raw`(\.json|\.rsc|\.segments\/.+\.segment\.rsc)?[\/#\?]?$`]
/** `name`, `:name`, and at the end `:name*` or `:name+`, as path-to-regexp writes them. */
const LITERAL = /^\\\/[\w-]+/
const PARAMETER = String.raw`(?:\/([^\/#\?]+?))`
const REST = String.raw`(?:\/((?:[^\/#\?]+?)(?:\/(?:[^\/#\?]+?))*))`

/**
 * Whether a pattern is one that Next.js makes of a `matcher` of names and parameters. Slashes tell its parts apart, so that it is at
 * most quadratic, by its suffix; the analysis says the same and takes up to half a minute for each.
 */
export function isNextMatcher(source: string): boolean {
  if (!source.startsWith('^')) return false
  // A base path stands in front of all.
  const begin = source.slice(1).replace(/^(?:\\\/[\w-]+)+/, '')
  if (!begin.startsWith(PREFIX)) return false
  let rest = begin.slice(PREFIX.length)
  for (;;) {
    const literal = LITERAL.exec(rest)?.[0]
    if (literal !== undefined) rest = rest.slice(literal.length)
    else if (rest.startsWith(PARAMETER)) rest = rest.slice(PARAMETER.length)
    else break
  }
  if (rest.startsWith(REST)) rest = rest.slice(REST.length).replace(/^\?/, '')
  return SUFFIXES.includes(rest)
}
