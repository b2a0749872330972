import { createSecretKey, type KeyObject } from 'node:crypto'
import { hmac } from './hash.ts'

/**
 * Derives the SigV4 signing key of a region from the key of a day, `HMAC("AWS4" + secret, yyyymmdd)` (SigV4 "Calculate the
 * signature"). Returns a KeyObject, since a buffer would be converted to one for every signature.
 */
export const deriveSigningKey = (dayKey: Buffer, region: string): KeyObject =>
  createSecretKey(hmac(hmac(hmac(dayKey, region), 's3'), 'aws4_request'))
