import { BadRequest } from '@platform/errors/api-error'
import { platformName } from '@platform/look/name'
import type { Deps } from '../../deps.ts'
import { checkedPassword, PASSWORD_LENGTH_MIN } from '../accounts/passwords.ts'
import { commonPasswords } from './common-passwords.ts'

/** A word with up to this many digits and signs around it still counts as that word: a year and an exclamation mark. */
const DECORATION_MAX = 5
const WORD_LENGTH_MIN = 3

// Read as cycles, forwards and backwards: the alphabet, the digits, and the rows of common keyboards.
const rows = [
  'abcdefghijklmnopqrstuvwxyz',
  '1234567890',
  'qwertyuiop',
  'qwertzuiop',
  'azertyuiop',
  'asdfghjkl',
  'zxcvbnm',
]
const keyboard = 'qwertyuiopasdfghjklzxcvbnm'

interface Owner {
  email: string
  givenName: string | null
  familyName: string | null
}

/** Normalises passwords for comparison: ignores case and Unicode spelling. */
const fold = (text: string): string => text.normalize('NFKC').toLowerCase()

/** The part whose repetition makes up the text, such as `victim` of `victimvictim`; the text itself if nothing repeats. */
function repeatedPart(text: string): string {
  for (let length = 1; length <= text.length / 2; length++) {
    const part = text.slice(0, length)
    if (part.repeat(Math.ceil(text.length / length)).startsWith(text)) return part
  }
  return text
}

function isSequence(text: string): boolean {
  const circles = [...rows, keyboard].map((row) => row.repeat(Math.ceil(text.length / row.length) + 1))
  const backwards = Array.from(text).toReversed().join('')
  return circles.some((circle) => circle.includes(text) || circle.includes(backwards))
}

/** The words that an attacker would try first for this user: from their names and email address, and from this site. */
function wordsOf({ email, givenName, familyName }: Owner, issuer: string): string[] {
  const position = email.lastIndexOf('@')
  const hosts = [email.slice(position + 1), new URL(issuer).hostname]
  // Without the top-level domain, which is too common.
  const labels = hosts.flatMap((host) => (host.includes('.') ? host.split('.').slice(0, -1) : [host]))
  return [email.slice(0, position), givenName ?? '', familyName ?? '', `${platformName} account`, ...labels]
    .flatMap((text) => [fold(text), ...(fold(text).match(/\p{L}+/gu) ?? [])])
    .filter((word) => word.length >= WORD_LENGTH_MIN)
    .toSorted((a, b) => b.length - a.length)
}

/** True if the password without the words leaves only a few digits and signs. */
function isMadeOf(words: readonly string[], text: string): boolean {
  const left = words.reduce((left, word) => left.replaceAll(word, ''), text)
  return left !== text && left.length <= DECORATION_MAX && !/\p{L}/u.test(left)
}

/** Why the password is easy to guess; undefined if it is not. */
async function weaknessOf(text: string, words: readonly string[]): Promise<string | undefined> {
  if ((await commonPasswords()).has(text)) return 'is one of those that many people use and attackers try first'
  if (isSequence(text)) return 'follows the alphabet, the digits or the keyboard'
  if (isMadeOf(words, text)) return 'is made of your name, your email address or the name of this site'
  const part = repeatedPart(text)
  if (part === text) return undefined
  if (Array.from(part).length < PASSWORD_LENGTH_MIN) return 'repeats the same few characters'
  return weaknessOf(part, words)
}

/**
 * Returns an acceptable new password for this user. The whole password is compared with what attackers try first, as in NIST
 * SP 800-63B-4 §3.1.1.2: common passwords, and words of this user and site with a few characters around them. Passwords that
 * the operator sets at the command line are exempt: they may be the known password of a demonstration.
 *
 * Throws BadRequest, which says what is wrong and what to do, if it breaks the rules.
 */
export async function checkedNewPassword(
  { issuer }: Pick<Deps, 'issuer'>,
  password: string,
  owner: Owner,
): Promise<string> {
  checkedPassword(password)
  if (password.toLowerCase() === owner.email.toLowerCase())
    throw new BadRequest('The new password is your email address')
  const weakness = await weaknessOf(fold(password), wordsOf(owner, issuer))
  if (weakness !== undefined)
    throw new BadRequest(
      `This password ${weakness}. Choose another one: a few words that do not belong together are easy to remember and hard to guess`,
    )
  return password
}
