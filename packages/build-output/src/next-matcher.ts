/** What Next.js writes before and after each pattern of a middleware: the forms in which the same page is requested. */
const PREFIX = String.raw`(?:\/(_next\/data\/[^/]{1,}))?`
const SUFFIXES = [String.raw`(\.json)?[\/#\?]?$`, String.raw`(\.json|\.rsc|\.segments\/.+\.segment\.rsc)?[\/#\?]?$`]
/** `name`, `:name`, and at the end `:name*` or `:name+`, as path-to-regexp writes them. */
const LITERAL = /^\\\/[\w-]+/
const PARAMETER = String.raw`(?:\/([^\/#\?]+?))`
const REST = String.raw`(?:\/((?:[^\/#\?]+?)(?:\/(?:[^\/#\?]+?))*))`

/**
 * True if Next.js made the pattern from a `matcher` of names and parameters. Its parts are separated by slashes, so it is at most
 * quadratic, because of its suffix; the analysis comes to the same result and takes up to half a minute for each.
 */
export function isNextMatcher(source: string): boolean {
  if (!source.startsWith('^')) return false
  // A base path precedes everything else.
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
