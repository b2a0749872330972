/** Parts as path-to-regexp writes them: text, `:name` and `:name(\\d+)`, `:name?`, and once `:name*`, `:name+` or `(.*)`. */
const TEXT = /^(?:[\w\-~!@%&',;=]|\/(?!\?)|\\[.\-+*?=^!:${}()[\]|/\\])+(?![?*+{])/
const PARAMETER = /^\(\?:\/\((?:\[\^\/\]|\\[dw]|\[(?:[\w]|\w-\w|\\?-)+\])(?:[+*]\??|\{\d{1,3}(?:,\d{0,3})?\})?\)\)/
const REST = '(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))'
const ANYTHING = '(?:/(.*))'
/** Each doubles the ways to split a path. */
const OPTIONAL_MAX = 4

/**
 * True if a pattern was made from a `source` of names, as most rules of vercel.json are. Its parts begin with a slash, which none but one
 * of them contains, so a path can be split among them in few ways: it is at most quadratic. The analysis comes to the same result, and takes
 * a hundred times as long.
 *
 * source: of a pattern with slashes as they are. false: unknown.
 */
export function isPathPattern(source: string): boolean {
  if (!source.startsWith('^') || !source.endsWith('$')) return false
  let rest = source.slice(1, -1).replaceAll(String.raw`\/`, '/')
  let optional = 0
  let isOpen = false
  while (rest !== '') {
    const text = TEXT.exec(rest)?.[0]
    if (text !== undefined) {
      rest = rest.slice(text.length)
      continue
    }
    const anything = [REST, ANYTHING].find((part) => rest.startsWith(part))
    if (anything !== undefined && isOpen) return false
    isOpen ||= anything !== undefined
    const part = anything ?? PARAMETER.exec(rest)?.[0]
    if (part === undefined) return false
    rest = rest.slice(part.length)
    if (rest.startsWith('?')) {
      if (++optional > OPTIONAL_MAX) return false
      rest = rest.slice(1)
    }
    // Text of the same part would have to be told from the name's.
    if (rest !== '' && !/^(?:\/|\\\/|\(\?:\/)/.test(rest)) return false
  }
  return true
}
