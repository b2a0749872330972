/** A request target as paths are read: the absolute form, which proxies may send, without its scheme and host (RFC 9112 §3.2). */
export const originForm = (target = '/'): string =>
  target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '').replace(/^(?=\?|$)/, '/')

/**
 * The path of a request as it was sent: nothing is decoded, and dot segments stay. Counters, listeners and operations all go by it, so that
 * what one takes for S3 is S3 to the others as well.
 */
export const pathOf = (target = '/'): string => target.split('?', 1)[0] ?? target
