import { createHmac, hash, type KeyObject, timingSafeEqual } from 'node:crypto'

/** HMAC-SHA256, 32 bytes. */
export const hmac = (key: Buffer | KeyObject, message: string): Buffer =>
  createHmac('sha256', key).update(message).digest()

/** HMAC-SHA256 in hexadecimal. As text, since memory of its own for 32 bytes costs more than the MAC. */
export const hmacHex = (key: KeyObject, message: string): string =>
  createHmac('sha256', key).update(message).digest('hex')

/** SHA-256 in hexadecimal of latin1 text, byte for byte: headers and paths are latin1. */
export const sha256Hex = (text: string): string => hash('sha256', Buffer.from(text, 'latin1'), 'hex')

/** The SHA-256 of no bytes. */
export const EMPTY_SHA256 = sha256Hex('')

/** Compares a MAC, 64 hexadecimal digits in lower case, with what a client claims, in constant time. */
export function sameSignature(expected: string, claimed: string): boolean {
  const [expectedBytes, claimedBytes] = [Buffer.from(expected), Buffer.from(claimed)]
  return claimedBytes.length === expectedBytes.length && timingSafeEqual(claimedBytes, expectedBytes)
}
