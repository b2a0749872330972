const PATTERN_MAX = 256
const STARS_A_SEGMENT = 2
const DEEP_MAX = 2

const escaped = (literal: string): string => literal.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/**
 * Compiles a pattern of workspaces (`packages/*`, `apps/**`, `{apps,libs}/*`) to one for folders. Returns undefined for what no
 * workspace needs and what could take long to match: character classes, nested braces, many stars.
 */
export function compileGlob(pattern: string): RegExp | undefined {
  const segments = pattern.replace(/^\.\//, '').replace(/\/+$/, '').split('/')
  if (pattern.length > PATTERN_MAX || segments.filter((each) => each === '**').length > DEEP_MAX) return undefined
  const parts: string[] = []
  for (const [n, segment] of segments.entries()) {
    const isLast = n === segments.length - 1
    if (segment === '**') parts.push(isLast ? '.+' : '(?:[^/]+/)*')
    else if (segment !== '.' && segment !== '') {
      const compiled = compileSegment(segment)
      if (compiled === undefined) return undefined
      parts.push(isLast ? compiled : `${compiled}/`)
    }
  }
  return new RegExp(`^${parts.join('')}$`)
}

function compileSegment(segment: string): string | undefined {
  if ((segment.match(/\*/g)?.length ?? 0) > STARS_A_SEGMENT || /[[\]()?!+@]\(|[[\]?]/.test(segment)) return undefined
  const pieces = segment.split(/(\*+|\{[^{}]*\})/)
  if (pieces.some((piece, n) => n % 2 === 0 && /[{}]/.test(piece))) return undefined
  return pieces
    .map((piece, n) => {
      if (n % 2 === 0) return escaped(piece)
      if (piece.startsWith('*')) return '[^/]*'
      return `(?:${piece.slice(1, -1).split(',').map(escaped).join('|')})`
    })
    .join('')
}
