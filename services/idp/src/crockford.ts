import { randomInt } from 'node:crypto'

/** Crockford's base32: no I, L, O or U (B §2). */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** Random characters of five bits each. */
export const randomCrockford = (length: number): string =>
  Array.from({ length }, () => ALPHABET[randomInt(32)]).join('')

/** Formats a code for people: groups of four with hyphens between them. */
export const formatCrockford = (code: string): string => code.replaceAll(/.{4}(?=.)/g, '$&-')

/**
 * Normalises a typed code: any case, with or without hyphens and spaces, O for 0, I and L for 1 (D65). Undefined if it is
 * invalid.
 */
export function readCrockford(text: string, length: number): string | undefined {
  const code = text
    .toUpperCase()
    .replaceAll(/[\s\p{Pd}]/gu, '')
    .replaceAll('O', '0')
    .replaceAll(/[IL]/g, '1')
  return code.length === length && /^[0-9A-HJKMNP-TV-Z]+$/.test(code) ? code : undefined
}
