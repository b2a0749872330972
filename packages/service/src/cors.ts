import type { IncomingMessage } from 'node:http'

/** True for a CORS preflight: a browser asks on its own whether it may send the request that follows. */
export const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined

/** What a preflight is answered with: the methods and headers that pages may send, kept by browsers for maxAgeSeconds. */
export const preflightHeaders = (allow: {
  methods: string
  headers: string
  maxAgeSeconds: number
}): Record<string, string> => ({
  'access-control-allow-methods': allow.methods,
  'access-control-allow-headers': allow.headers,
  'access-control-max-age': String(allow.maxAgeSeconds),
})

/** Lets pages of any origin read an answer and its exposed headers. No cookie counts there, so no credentials either. */
export const anyOriginHeaders = (exposedHeaders: string): Record<string, string> => ({
  'access-control-allow-origin': '*',
  'access-control-expose-headers': exposedHeaders,
})
