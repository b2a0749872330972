const REPEATS_MAX = 2
/** Maximum number of paths around the repeats: an optional part doubles them, a group has one per alternative. */
const WAYS_MAX = 16

/**
 * True if a cheap look at a pattern shows that it is at most quadratic: at most two repeats, each of one character or class, and
 * few optional parts and alternatives. `[^/]+` before a slash cannot backtrack and is not counted. This covers most patterns of
 * frameworks, and saves seconds of analysis for each.
 *
 * false: unknown. `(a+)+` and patterns with three repeats need the analysis.
 */
export function isSimplePattern(source: string): boolean {
  let repeats = 0
  /** A part with only one way to match is still scanned again for each way before it. */
  let rescans = 0
  let isSegment = false
  let ways = 1
  const alternatives = [1]
  let previous: 'nothing' | 'character' | 'group' | 'quantifier' = 'nothing'
  for (let index = 0; index < source.length; index++) {
    const character = source[index] ?? ''
    if (character === '\\') {
      // A back reference costs as much as the length of its target.
      if (/[1-9k]/.test(source[index + 1] ?? '')) return false
      index++
      previous = 'character'
      isSegment = false
    } else if (character === '[') {
      const end = endOfClass(source, index)
      isSegment = /^\[\^\\?\/\]$/.test(source.slice(index, end + 1))
      index = end
      previous = 'character'
    } else if (character === '(') {
      index += /^\((?:\?(?:[:=!]|<[=!]|<\w+>))?/.exec(source.slice(index))?.[0].length ?? 1
      index--
      alternatives.push(1)
      previous = 'nothing'
    } else if (character === ')') {
      ways *= alternatives.pop() ?? 1
      previous = 'group'
    } else if (character === '|') {
      alternatives[alternatives.length - 1] = (alternatives.at(-1) ?? 1) + 1
      previous = 'nothing'
    } else if (character === '?') {
      // After a quantifier it only determines which way is tried first.
      if (previous !== 'quantifier') ways *= 2
      previous = 'quantifier'
    } else if ('*+{'.includes(character)) {
      if (previous === 'group') return false
      if (character === '{') index = Math.max(index, source.indexOf('}', index))
      if (!isSegment || !/^\??\)*\\?\//.test(source.slice(index + 1))) repeats++
      else if (repeats > 0) rescans = 1
      previous = 'quantifier'
    } else {
      previous = 'character'
      isSegment = false
    }
  }
  for (const count of alternatives) ways *= count
  return repeats + rescans <= REPEATS_MAX && ways <= WAYS_MAX
}

function endOfClass(source: string, start: number): number {
  for (let index = start + 1; index < source.length; index++) {
    if (source[index] === '\\') index++
    else if (source[index] === ']') return index
  }
  return source.length
}
