import { lookup } from 'mrmime'

const TEXT = /^text\/|^application\/(?:javascript|json|manifest\+json|ld\+json|xml)$|\+xml$/

/** Returns a file's Content-Type by its name, with `charset=utf-8` for text; `application/octet-stream` if unknown. */
export function contentTypeOf(path: string): string {
  const type = lookup(path) ?? 'application/octet-stream'
  return TEXT.test(type) ? `${type}; charset=utf-8` : type
}
