const PATTERN_MAX = 256
const STARS_A_SEGMENT = 2
const DEEP_MAX = 2
const CHOICES_MAX = 32

/** A pattern as its segments: `**`, or the pieces around the stars. */
type Segment = '**' | string[]

/** Writes a pattern once for each choice of its braces: `{apps,libs}/*`. Returns undefined for nested ones, and too many. */
function expandBraces(pattern: string): string[] | undefined {
  let expanded = ['']
  for (const [n, piece] of pattern.split(/\{([^{}]*)\}/).entries()) {
    if (n % 2 === 0 && /[{}]/.test(piece)) return undefined
    const choices = n % 2 === 0 ? [piece] : piece.split(',')
    if (expanded.length * choices.length > CHOICES_MAX) return undefined
    expanded = expanded.flatMap((before) => choices.map((choice) => before + choice))
  }
  return expanded
}

function segmentsOf(pattern: string): Segment[] | undefined {
  const written = pattern.split('/').filter((segment) => segment !== '' && segment !== '.')
  const segments: Segment[] = []
  for (const segment of written) {
    if (segment === '**') segments.push('**')
    else if (segment.split('*').length > STARS_A_SEGMENT + 1 || /[[\]()?!+@]\(|[[\]?]/.test(segment)) return undefined
    else segments.push(segment.split(/\*+/))
  }
  return segments.filter((segment) => segment === '**').length > DEEP_MAX ? undefined : segments
}

/** Whether a name is these pieces, with anything between them. */
function isSegment([first = '', ...rest]: readonly string[], name: string): boolean {
  const last = rest.pop()
  if (last === undefined) return name === first
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length) return false
  let at = first.length
  for (const piece of rest) {
    const found = name.indexOf(piece, at)
    if (found === -1) return false
    at = found + piece.length
  }
  return at <= name.length - last.length
}

/** Whether a folder is what the segments say. At the end `**` is a folder at least. */
function isMatch(segments: readonly Segment[], names: readonly string[]): boolean {
  const [segment, ...others] = segments
  if (segment === undefined) return names.length === 0
  if (segment !== '**') return names.length > 0 && isSegment(segment, names[0] ?? '') && isMatch(others, names.slice(1))
  if (others.length === 0) return names.length > 0
  return names.some((_, n) => isMatch(others, names.slice(n)))
}

/**
 * Compiles a pattern of workspaces (`packages/*`, `apps/**`, `{apps,libs}/*`) to a test for folders. Returns undefined for what no
 * workspace needs and what could take long to match: character classes, nested braces, many stars.
 */
export function compileGlob(pattern: string): ((folder: string) => boolean) | undefined {
  if (pattern.length > PATTERN_MAX) return undefined
  const ways = expandBraces(pattern)?.map((each) => segmentsOf(each))
  if (ways === undefined || ways.includes(undefined)) return undefined
  return (folder) => {
    const names = folder.split('/')
    return ways.some((segments) => segments !== undefined && isMatch(segments, names))
  }
}
