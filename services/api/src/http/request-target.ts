/** A request target in origin form. Proxies may send the absolute form; its scheme and host are removed (RFC 9112 §3.2). */
export const originForm = (target = '/'): string =>
  target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '').replace(/^(?=\?|$)/, '/')

/**
 * The path of a request as sent: nothing is decoded, and dot segments stay. Counters, listeners and operations all use it, so
 * that they agree on which requests are S3's.
 */
export const pathOf = (target = '/'): string => target.split('?', 1)[0] ?? target
