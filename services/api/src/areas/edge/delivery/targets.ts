import type { IncomingMessage } from 'node:http'
import { BadRequest } from '@platform/errors/api-error'
import type { EdgeDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { OBJECTS_PATH } from '../../storage/objects/access-url.ts'

/** An object, by the slug of its bucket and its key. */
export interface ObjectTarget {
  kind: 'object'
  slug: string
  key: string
  query: URLSearchParams
  /** True if the origin is not the bucket's own. */
  isSandboxed: boolean
}

/** What a hostname and path name. nothing: they do not have the form of an object's URL. */
export type Target = ObjectTarget | { kind: 'nothing' }

/** The host that a request names, in lower case. */
export const hostOf = (incoming: IncomingMessage): string => (incoming.headers.host ?? '').toLowerCase()
const withoutPort = (host: string): string => host.replace(/:\d+$/, '')

/** Decodes a key from a URL's path, percent-encoded or not. Throws BadRequest. */
function keyOfPath(path: string): string {
  try {
    const key = decodeURIComponent(path)
    if (key !== '' && !key.includes('\0')) return key
  } catch {
    // not UTF-8
  }
  throw new BadRequest('The path is not the key of an object')
}

/**
 * Parses the target of a request: an object by its bucket's hostname, or by path on the edge's own origin (D92). Does not check
 * that it exists. Throws BadRequest if the path cannot be a key.
 */
export function readTarget(
  { objectsDomain, appsUrl }: Pick<EdgeDeps, 'objectsDomain' | 'appsUrl'>,
  { incoming, path, url }: Pick<RawExchange, 'incoming' | 'path' | 'url'>,
): Target {
  const query = new URLSearchParams(url.slice(path.length + 1))
  const host = withoutPort(hostOf(incoming))
  const objectsSuffix = `.${withoutPort(objectsDomain)}`
  if (host.endsWith(objectsSuffix)) {
    const slug = host.slice(0, -objectsSuffix.length)
    return { kind: 'object', slug, key: keyOfPath(path.slice(1)), query, isSandboxed: false }
  }
  if (!path.startsWith(OBJECTS_PATH) || host.endsWith(`.${appsUrl.hostname}`)) return { kind: 'nothing' }
  const [slug = '', ...key] = path.slice(OBJECTS_PATH.length).split('/')
  return { kind: 'object', slug, key: keyOfPath(key.join('/')), query, isSandboxed: true }
}
