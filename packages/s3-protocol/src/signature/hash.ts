import { createHmac, hash, type KeyObject, timingSafeEqual } from 'node:crypto'

/** HMAC-SHA256, 32 bytes. */
export const hmac = (key: Buffer | KeyObject, message: string): Buffer =>
  createHmac('sha256', key).update(message).digest()

/** SHA-256 in hexadecimal of latin1 text, byte for byte: headers and paths are latin1. */
export const sha256Hex = (text: string): string => hash('sha256', Buffer.from(text, 'latin1'), 'hex')

/** The SHA-256 of no bytes. */
export const EMPTY_SHA256 = sha256Hex('')

/** Compares a MAC with the 64 hexadecimal digits that a client claims, in constant time. */
export function sameSignature(expected: Buffer, claimed: string): boolean {
  // Characters that are not hexadecimal make the buffer shorter.
  const claimedBytes = Buffer.from(claimed, 'hex')
  return claimedBytes.length === expected.length && timingSafeEqual(claimedBytes, expected)
}
