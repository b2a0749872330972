import { expect, test } from 'vitest'
import { plainName } from './plain-name.ts'

test.each([
  ['Acme', 'Acme'],
  ['Café Zoë 42', 'Café Zoë 42'],
  ['win at https://evil.example/now', 'win at https evil example now'],
  ['evil。example／x', 'evil example x'],
  ['call +49 (30) 123-4567', 'call +'],
  ['one\r\nBcc: eve@example.com', 'one Bcc eve example com'],
  ['x'.repeat(200), 'x'.repeat(60)],
  ['=?utf-8?Q?Refund=3A_https=3A=2F=2Fevil=2Ecom?=', 'utf-8?Q?Refund=3A_https=3A=2F=2Fevil=2Ecom'],
  ['…', 'a team'],
  [' \u200B ', 'a team'],
])('the name %j stands in a letter as %j', (name, plain) => {
  expect(plainName(name, 'a team')).toBe(plain)
})
