import { randomBytes, timingSafeEqual } from 'node:crypto'
import { base32 } from 'oslo/encoding'
import { createTOTPKeyURI, generateHOTP } from 'oslo/otp'

const STEP_MS = 30_000
/** As RFC 4226 §4 recommends. */
const SECRET_BYTES = 20

export const newTotpSecret = (): Buffer => randomBytes(SECRET_BYTES)

/** The secret for typing into an app, in groups of four. */
export const formatTotpSecret = (secret: Buffer): string =>
  base32.encode(secret, { includePadding: false }).replaceAll(/.{4}(?=.)/g, '$& ')

/** The URI that an app reads from a QR code. */
export const totpUri = (secret: Buffer, { issuer, email }: { issuer: string; email: string }): string =>
  createTOTPKeyURI(new URL(issuer).hostname, email, secret)

/**
 * The time step of a code: the current one, or one to either side, since clocks differ and people are slow (RFC 6238 §5.2).
 * The caller ensures that a step is used once: oslo's own controller would accept a code repeatedly, and reads the system
 * clock instead of ours.
 */
export async function findTotpStep(secret: Buffer, code: string, at: Date): Promise<number | undefined> {
  const now = Math.floor(at.getTime() / STEP_MS)
  let found: number | undefined
  for (const step of [now - 1, now, now + 1]) {
    const expected = await generateHOTP(secret, step)
    if (expected.length === code.length && timingSafeEqual(Buffer.from(expected), Buffer.from(code))) found = step
  }
  return found
}
