import { expect, test } from 'vitest'
import { readMailAddress } from './mail-address.ts'

test.each([
  ['ada@example.com', 'ada@example.com'],
  [' Ada.Lovelace+x@EXAMPLE.com ', 'ada.lovelace+x@example.com'],
  ['ada@BÜCHER.example', 'ada@xn--bcher-kva.example'],
  ['ada@localhost', 'ada@localhost'],
  ['ada@127.1', 'ada@127.1'],
  ['ada@ｅxample。com', 'ada@example.com'],
])('%j is read as %s (D114)', (text, address) => {
  expect(readMailAddress(text)).toBe(address)
})

test.each([
  '',
  'ada',
  'ada@',
  '@example.com',
  'ada@example.com, eve@example.com',
  'ada@eve@example.com',
  '"a b"@example.com',
  'ada lovelace@example.com',
  'ada@exa mple.com',
  'ada@-example.com',
  'ada@example..com',
  'ada@[127.0.0.1]',
  'ada@example.com/elsewhere',
  'ada@example.com?x',
  'ada@example.com#x',
  'ada@example.com:25',
  'ada@ex%61mple.com',
  'ada@bücher.example/x',
  'ada@bücher.example／x',
  'ada@bücher.example\\x',
  'аda@example.com', // a Cyrillic а
  'Kelvin@example.com'.replace('K', '\u212A'),
  'ada@example.com\nBcc: eve@example.com',
  `${'a'.repeat(65)}@example.com`,
  `ada@${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.${'e'.repeat(20)}`,
  `${'a'.repeat(300)}@example.com`,
])('%j is not read as an address', (text) => {
  expect(readMailAddress(text)).toBeUndefined()
})
