/** Bytes of UTF-8 that the mock counts as one token. */
const BYTES_PER_TOKEN = 4

/** What the mock charges, in millionths of a dollar. */
export const mockPrice = { perInputToken: 2, perOutputToken: 8, perVideo: 500_000 } as const

/** What the mock counted and charged for one request. */
export interface MockUsage {
  /** Cached ones included. */
  inputTokens: number
  cachedInputTokens: number
  /** Reasoning included. */
  outputTokens: number
  reasoningTokens: number
  costMicros: number
}

/** Tokens of a text or of bytes: four bytes of UTF-8 are one, and so are the one to three at the end. */
export function mockTokens(content: string | Uint8Array): number {
  return Math.ceil((typeof content === 'string' ? Buffer.byteLength(content) : content.length) / BYTES_PER_TOKEN)
}

/** What the mock charges for so many tokens; cached ones cost as much as others. */
export function mockCostMicros(inputTokens: number, outputTokens: number): number {
  return inputTokens * mockPrice.perInputToken + outputTokens * mockPrice.perOutputToken
}

/** The beginning of a text that has at most so many tokens; it ends between characters. */
export function cutToMockTokens(text: string, tokensMax: number): string {
  const bytes = Buffer.from(text)
  let end = Math.min(bytes.length, tokensMax * BYTES_PER_TOKEN)
  while (end < bytes.length && end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
