import { bareEtag, etagOf, namesEtag } from '@platform/service/entity-tag'

interface Answer {
  status: 200 | 304
  /** Names and values alternate: the form that Node writes fastest. */
  headers: readonly string[]
  /** Undefined with 304. */
  body: Buffer<ArrayBuffer> | undefined
}

/** An answer prepared in advance, the same for everybody. */
export interface Document {
  etag: string
  whole: Answer
  notModified: Answer
}

/** Makes a document. type: its media type; cacheControl: the Cache-Control header, letter for letter. */
export function documentOf(
  content: string | Buffer,
  { type, cacheControl }: { type: string; cacheControl: string },
): Document {
  const body = Buffer.from(content)
  const etag = etagOf(body)
  const headers = ['cache-control', cacheControl, 'etag', etag]
  const describing = ['content-type', type, 'content-length', String(body.length)]
  return {
    etag,
    whole: { status: 200, headers: [...headers, ...describing], body },
    notModified: { status: 304, headers, body: undefined },
  }
}

/** The whole document, or 304 if If-None-Match names its ETag. */
export const answerTo = ({ etag, whole, notModified }: Document, ifNoneMatch: string | undefined): Answer =>
  ifNoneMatch !== undefined && namesEtag(ifNoneMatch, bareEtag(etag)) ? notModified : whole
