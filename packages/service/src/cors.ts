import type { IncomingMessage } from 'node:http'

/** True for a CORS preflight: the browser's own request for permission to send the actual one. */
export const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined

/** Headers of a preflight response: the methods and headers that pages may send, cached by browsers for maxAgeSeconds. */
export const preflightHeaders = (allow: {
  methods: string
  headers: string
  maxAgeSeconds: number
}): Record<string, string> => ({
  'access-control-allow-methods': allow.methods,
  'access-control-allow-headers': allow.headers,
  'access-control-max-age': String(allow.maxAgeSeconds),
})

/** Lets pages of any origin read a response and its exposed headers. No cookies are used there, so credentials are not allowed. */
export const anyOriginHeaders = (exposedHeaders: string): Record<string, string> => ({
  'access-control-allow-origin': '*',
  'access-control-expose-headers': exposedHeaders,
})
