import { PlatformError } from '../errors.ts'
import type { Platform } from '../platform.ts'
import type { CallOptions } from '../sender.ts'
import type { Prepared } from '../request.ts'

/**
 * Sends a request to a URL that carries its own authority (D12), without a token: a part, a piece of an upload. `path` names it
 * in errors, since the URL is a secret. Throws PlatformError, before any request, for a URL of another origin.
 */
export async function sendSigned<T>(
  platform: Platform,
  request: Prepared & { url: string },
  options: CallOptions,
  read: (answer: Response) => Promise<T>,
): Promise<T> {
  const { method, path, url } = request
  if (!URL.canParse(url) || new URL(url).origin !== new URL(platform.baseUrl).origin)
    throw new PlatformError(`${path}: the URL does not belong to ${platform.baseUrl}, so nothing was sent`, {
      status: 0,
      operation: `${method} ${path}`,
      attempts: 0,
    })
  return platform.send({ ...request, isPublic: true }, options, read)
}
