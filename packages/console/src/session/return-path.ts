/**
 * A path of this origin to go on at after a sign-in: begins with one slash, and is not the address that sign-ins come back to. Anything
 * else, such as `//other.example` or `https://other.example`, is the start.
 */
export function returnPath(wanted: unknown): string {
  if (typeof wanted !== 'string' || !/^\/(?![/\\])/.test(wanted)) return '/'
  const url = new URL(wanted, location.origin)
  if (url.origin !== location.origin || url.pathname.startsWith('//') || isCallback(url)) return '/'
  return url.pathname + url.search + url.hash
}

/** Whether a sign-in comes back here. An organization may be named `callback`: its page has neither of the two. */
export const isCallback = ({ pathname, searchParams }: URL): boolean =>
  pathname === '/callback' && (searchParams.has('code') || searchParams.has('error'))
