import type { Sealer } from './seal.ts'

/**
 * How a token spells the id of its master key. The API's cursors encode it and the identity provider's tickets do not. Both
 * stay: during a rolling update the previous release reads tokens of this one, and a known browser keeps its ticket for 180 days.
 */
type KeyIdSpelling = 'plain' | 'base64url'

/**
 * Seals a text into a token of two parts, `<key id>.<ciphertext>`, which a client returns but can neither read nor change. It
 * consists of letters, digits, `_`, `-` and `.`, so it needs no escaping in URLs, forms and cookies.
 *
 * context: bound as associated data, so the token opens with the same context only.
 */
export function sealText(sealer: Sealer, text: string, context: string, keyIdSpelling: KeyIdSpelling): string {
  const { kekId, ciphertext } = sealer.seal(text, context)
  const keyId = keyIdSpelling === 'plain' ? kekId : Buffer.from(kekId).toString('base64url')
  return `${keyId}.${ciphertext.toString('base64url')}`
}

/** Opens a token. Throws unless `sealText` made it with this context and spelling, under a known master key. */
export function openText(sealer: Sealer, token: string, context: string, keyIdSpelling: KeyIdSpelling): string {
  // A plain key id may itself contain dots.
  const dot = token.lastIndexOf('.')
  const keyId = token.slice(0, dot)
  const kekId = keyIdSpelling === 'plain' ? keyId : Buffer.from(keyId, 'base64url').toString()
  return sealer.open({ kekId, ciphertext: Buffer.from(token.slice(dot + 1), 'base64url') }, context).toString()
}
