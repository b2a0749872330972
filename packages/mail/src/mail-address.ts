import { domainToASCII } from 'node:url'

/** RFC 5321 §4.5.3.1. */
const ADDRESS_LENGTH_MAX = 254
const LOCAL_PART = /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}$/
const DOMAIN = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/
/** Of a domain in any script. Others would end the host of a URL, by which Node reads domains, or be decoded in it. */
const DOMAIN_CHARACTERS = /^[\p{L}\p{M}\p{N}.。．｡-]+$/u

/** Of ASCII alone: the Kelvin sign would turn into a k. */
const inLowerCase = (text: string): string => text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** A domain in the one form that it has in ASCII, in lower case; undefined if it is no domain of mail. */
export function asciiDomain(domain: string): string | undefined {
  if (domain.length > ADDRESS_LENGTH_MAX || !DOMAIN_CHARACTERS.test(domain)) return undefined
  const ascii = /^[\x20-\x7e]+$/.test(domain) ? inLowerCase(domain) : domainToASCII(domain)
  return DOMAIN.test(ascii) ? ascii : undefined
}

/**
 * Reads an email address as `<input type=email>` takes it (HTML, "valid email address"): in lower case, ASCII before the `@`, and
 * the domain in its ASCII form, so that an address has one spelling. Undefined for anything else, such as a list of addresses.
 */
export function readMailAddress(text: string): string | undefined {
  const trimmed = text.trim()
  if (trimmed.length > ADDRESS_LENGTH_MAX) return undefined
  const [localPart = '', domain = '', ...more] = trimmed.split('@')
  const ascii = asciiDomain(domain)
  if (more.length > 0 || ascii === undefined) return undefined
  const local = inLowerCase(localPart)
  const address = `${local}@${ascii}`
  return LOCAL_PART.test(local) && address.length <= ADDRESS_LENGTH_MAX ? address : undefined
}
