import { createHash } from 'node:crypto'

interface Answer {
  status: 200 | 304
  /** Names and values in turn, as Node writes them fastest. */
  headers: readonly string[]
  /** Undefined for one who has it already. */
  body: Buffer<ArrayBuffer> | undefined
}

/** A text that is ready before anybody asks for it and the same for everybody. */
export interface Document {
  etag: string
  whole: Answer
  known: Answer
}

/** Makes a document. type: its media type; cacheControl: how long it may be kept, letter for letter. */
export function documentOf(text: string, { type, cacheControl }: { type: string; cacheControl: string }): Document {
  const body = Buffer.from(text)
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
  const headers = ['cache-control', cacheControl, 'etag', etag]
  const describing = ['content-type', type, 'content-length', String(body.length)]
  return {
    etag,
    whole: { status: 200, headers: [...headers, ...describing], body },
    known: { status: 304, headers, body: undefined },
  }
}

/** The whole document, or 304 where the If-None-Match of the request names it, or anything at all. */
export function answerTo({ etag, whole, known }: Document, ifNoneMatch: string | undefined): Answer {
  const isKnown = ifNoneMatch
    ?.split(',')
    .map((part) => part.trim().replace(/^W\//, ''))
    .some((part) => part === etag || part === '*')
  return isKnown ? known : whole
}
