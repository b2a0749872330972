import type { Piece } from './escapes.ts'
import type { Range } from './find.ts'

/** A part of a row that looks alike and is a match, or is none. */
export interface Segment extends Piece {
  isMatch: boolean
}

/** How many elements a segment is drawn with: one for a match, and one for its looks or link. */
const elementsOf = ({ isMatch, class: own, href }: Segment): number =>
  Number(isMatch) + Number(own !== undefined || href !== undefined)

/** Cuts pieces where matches begin and end. ranges: ascending, within the pieces' text. */
function cutAtRanges(pieces: readonly Piece[], ranges: readonly Range[]): Segment[] {
  const segments: Segment[] = []
  let start = 0
  let next = 0
  for (const piece of pieces) {
    const end = start + piece.text.length
    for (let at = start; at < end;) {
      while ((ranges[next]?.[1] ?? end) <= at) next++
      const [from, to] = ranges[next] ?? [end, end]
      const isMatch = from <= at
      const until = Math.min(end, isMatch ? to : from)
      segments.push({ ...piece, text: piece.text.slice(at - start, until - start), isMatch })
      at = until
    }
    start = end
  }
  return segments
}

/**
 * The segments of a row, drawn with at most elementsMax elements: what is beyond is plain text, since a line of a thousand colours
 * must not cost a thousand elements.
 */
export function segmentsOf(pieces: readonly Piece[], ranges: readonly Range[], elementsMax: number): Segment[] {
  const segments = cutAtRanges(pieces, ranges)
  let elements = 0
  const excess = segments.findIndex((segment) => (elements += elementsOf(segment)) > elementsMax)
  if (excess === -1) return segments
  const text = segments
    .slice(excess)
    .map((segment) => segment.text)
    .join('')
  return [...segments.slice(0, excess), { text, isMatch: false }]
}
