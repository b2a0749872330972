import { anyOriginHeaders } from '@platform/service/cors'

export type Header = readonly [name: string, value: string]

/** What every answer of an endpoint carries besides its request id. */
export const commonHeaders = (cors: boolean): readonly Header[] =>
  Object.entries({
    'x-content-type-options': 'nosniff',
    ...(cors && anyOriginHeaders('www-authenticate, retry-after, x-request-id')),
  })
