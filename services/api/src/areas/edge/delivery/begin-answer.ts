import type { HeaderPairs } from '@platform/build-output/router'
import { type AnswerBody, CompressedBody } from './compressed-body.ts'
import type { Compressors } from './compressors.ts'
import { flushHead } from './flush-head.ts'
import { isCurrent, negotiate, notModifiedHeaders } from './negotiate-encoding.ts'
import { flatten, type Visit } from './visit.ts'

/** Headers of a body, which a 304 has none of. */
const ofBody = new Set(['content-type', 'content-encoding', 'content-length'])

/** The head of an answer from elsewhere. */
interface AnswerHead {
  status: number
  /** All that the visitor gets. Names are in lower case. */
  headers: HeaderPairs
  /** Bytes of the body, as its Function says; undefined: it does not say. */
  length: number | undefined
}

function sendHead(visit: Visit, { status, headers, length }: AnswerHead): AnswerBody {
  visit.writeHead(status, flatten(headers))
  // The client sees at once that a streamed answer has begun.
  if (length === undefined) flushHead(visit.outgoing)
  return visit
}

/**
 * Begins an answer from elsewhere, compressed if it may be and its visitor likes that. Returns what takes its body; undefined if the
 * visitor has the answer already and has been told so by a 304.
 */
export function beginAnswer(visit: Visit, compressors: Compressors, head: AnswerHead): AnswerBody | undefined {
  const { status, headers, length } = head
  if (status === 304) return sendHead(visit, { ...head, headers: notModifiedHeaders(visit, headers) })
  const negotiated = negotiate(visit, status, headers, length)
  if (!negotiated) return sendHead(visit, head)
  const { plain, encoded } = negotiated
  if (!encoded) return sendHead(visit, { ...head, headers: plain })
  if (isCurrent(visit, status, headers)) {
    visit.send(304, flatten(encoded.headers.filter(([name]) => !ofBody.has(name))))
    return undefined
  }
  if (visit.method === 'HEAD') return sendHead(visit, { status, headers: encoded.headers, length: undefined })
  return new CompressedBody(visit, compressors, { encoding: encoded.encoding, length }, (isCompressed) =>
    visit.writeHead(status, flatten(isCompressed ? encoded.headers : plain)),
  )
}
