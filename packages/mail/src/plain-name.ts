const NAME_LENGTH_MAX = 60

/**
 * A name that somebody chose, as a letter shows it: mail programs turn dots and slashes into links, and digits into telephone
 * numbers, so that a name could carry an advertisement to people who never asked. Without these, on one line, of at most 60
 * characters; `otherwise` if nothing is left.
 */
export function plainName(text: string, otherwise: string): string {
  const plain = text
    .normalize('NFKC')
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')
    .replaceAll(/[.。．｡:/\\@<>]/gu, ' ')
    // Encoded words of a header (RFC 2047) would be decoded again.
    .replaceAll(/=\?|\?=/gu, ' ')
    .replaceAll(/\d(?:[\s()+-]*\d){3,}/gu, ' ')
    .replaceAll(/\s+/gu, ' ')
    .trim()
  return Array.from(plain).slice(0, NAME_LENGTH_MAX).join('').trim() || otherwise
}
