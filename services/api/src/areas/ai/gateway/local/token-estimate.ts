const BYTES_PER_TOKEN = 4

/**
 * Returns the tokens of this many UTF-8 bytes, as local models and estimates count them: one per four bytes, rounded up.
 */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** Cuts a text to this many tokens, at a character boundary. */
export function cutToTokens(text: string, tokensMax: number): string {
  const bytes = Buffer.from(text)
  if (tokensOfBytes(bytes.length) <= tokensMax) return text
  let end = tokensMax * BYTES_PER_TOKEN
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
