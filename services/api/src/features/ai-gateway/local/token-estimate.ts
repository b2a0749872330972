const BYTES_PER_TOKEN = 4

/**
 * Tokens of so many UTF-8 bytes, as the local models count and as estimates do: four bytes are one token, and so are the one to three
 * at the end.
 */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** The beginning of a text that has at most so many tokens; it ends between characters. */
export function cutToTokens(text: string, tokensMax: number): string {
  const bytes = Buffer.from(text)
  if (tokensOfBytes(bytes.length) <= tokensMax) return text
  let end = tokensMax * BYTES_PER_TOKEN
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
