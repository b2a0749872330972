import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { openDice } from '../../../../test/dice.ts'
import { createRedaction } from './redact.ts'

const encodings: Record<string, (value: string) => string> = {
  'as it is': (value) => value,
  'URL-encoded': (value) => encodeURIComponent(value),
  'URL-encoded in lower case': (value) => encodeURIComponent(value).replaceAll(/%../g, (each) => each.toLowerCase()),
  'as form data': (value) => new URLSearchParams({ value }).toString().slice('value='.length),
  'as JSON': (value) => JSON.stringify(value),
  'in base64': (value) => Buffer.from(value).toString('base64'),
  'in base64 behind one byte': (value) => Buffer.from(`u${value}`).toString('base64'),
  'in base64 behind two bytes': (value) => Buffer.from(`u:${value}`).toString('base64'),
  'in base64url behind a name': (value) => Buffer.from(`user:${value}@host`).toString('base64url'),
}

/** The output for a text that arrives in two pieces. */
function redactedInTwo(redaction: ReturnType<typeof createRedaction>, text: string, border: number): string {
  const redactor = redaction()
  return redactor.write(text.slice(0, border)) + redactor.write(text.slice(border)) + redactor.end()
}

/** The longest part of `secret` that is in `text`. */
function longestLeak(text: string, secret: string): number {
  let longest = 0
  for (let from = 0; from < secret.length; from++)
    while (text.includes(secret.slice(from, from + longest + 1)) && from + longest < secret.length) longest++
  return longest
}

test('1,000 secrets are replaced in every encoding, wherever a border between two pieces falls', () => {
  const values = Array.from({ length: 1_000 }, (_, n) =>
    n % 3 === 0
      ? randomBytes(6 + (n % 40)).toString('hex')
      : n % 3 === 1
        ? `pa ss/${randomBytes(9).toString('base64')}+é"\\&`
        : randomBytes(8 + (n % 30))
            .toString('latin1')
            .replaceAll(/[\r\n]/g, 'x'),
  )
  const redaction = createRedaction(values)
  const dice = openDice()
  for (const [n, value] of values.entries())
    for (const [name, encode] of Object.entries(encodings)) {
      const encoded = encode(value)
      const text = `before ${encoded} after`
      // Every border for some texts, a random one for the others.
      const borders = n % 50 === 0 ? text.split('').keys() : [dice.integer(0, text.length)]
      for (const border of borders) {
        const out = redactedInTwo(redaction, text, border)
        expect(out.startsWith('before ') && out.endsWith(' after'), `${name}, cut at ${border}: ${out}`).toBe(true)
        expect(out, name).toContain('[redacted]')
        // A name before the secret is 7 characters in base64, and one character at each edge holds bits of both.
        expect(longestLeak(out, encoded), `${name}, cut at ${border}`).toBeLessThan(9)
        expect(out.includes(value)).toBe(false)
      }
    }
})

test('each line of a value of several lines is replaced, and lines of fewer than 6 characters stay', () => {
  const redaction = createRedaction(['-----BEGIN KEY-----\r\nMIIEvQIBADAN\nabc\n-----END KEY-----', 'short'])
  const redactor = redaction()
  expect(redactor.write('x MIIEvQIBADAN y abc short\n-----END KEY-----') + redactor.end()).toBe(
    'x [redacted] y abc short\n[redacted]',
  )
})

test('secrets that overlap leave nothing of either, and ordinary text passes unchanged', () => {
  const redaction = createRedaction(['abcdef', 'defghi', 'abcdefxyz'])
  const of = (text: string) => redactedInTwo(redaction, text, 4)
  expect(of('1abcdefghi2')).toBe('1[redacted]2')
  expect(of('abcdefxyzabcdef')).toBe('[redacted][redacted]')
  expect(of('abcde fghi, nothing to hide')).toBe('abcde fghi, nothing to hide')
  const redactor = createRedaction([])()
  expect(redactor.write('as it came') + redactor.end()).toBe('as it came')
})

test('of a text that was cut, the beginning of a secret at its end is replaced too', () => {
  const secret = randomBytes(3_000).toString('hex')
  const redaction = createRedaction([secret, 'horses'])
  const cut = (text: string) => {
    const redactor = redaction()
    return redactor.write(text) + redactor.cut()
  }
  for (const length of [6, 100, 4_096, secret.length])
    expect(cut(`of ${secret} and ${secret.slice(0, length)}`)).toBe('of [redacted] and [redacted]')
  expect(cut(`key=${Buffer.from(`u:${secret}`).toString('base64').slice(0, 2_000)}`)).toMatch(/^key=.{3}\[redacted\]$/)
  // A prefix shorter than the shortest redacted secret is not redacted.
  expect(cut(`some ${secret.slice(0, 5)}`)).toBe(`some ${secret.slice(0, 5)}`)
  expect(cut('of horses and horse')).toBe('of [redacted] and horse')
})

test('a secret that comes one character at a time is replaced once', () => {
  const redactor = createRedaction(['correct horse'])()
  let out = ''
  for (const character of 'say correct horse twice') out += redactor.write(character)
  expect(out + redactor.end()).toBe('say [redacted] twice')
})
