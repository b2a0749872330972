import { expect, test } from 'vitest'
import { createSealer } from './seal.ts'
import { openText, sealText } from './sealed-text.ts'

const sealer = createSealer([{ id: '2026.a', key: Buffer.alloc(32, 7) }])

test.each(['plain', 'base64url'] as const)('a token opens with its context only (%s key id)', (spelling) => {
  const token = sealText(sealer, 'é 1', 'list', spelling)
  expect(token).toMatch(/^[\w.-]+\.[\w-]+$/)
  expect(openText(sealer, token, 'list', spelling)).toBe('é 1')
  expect(() => openText(sealer, token, 'another list', spelling)).toThrow('does not open')
  for (const made of ['', '.', 'x', 'x.y', `A${token}`, `${token}.`, token.slice(0, -8)])
    expect(() => openText(sealer, made, 'list', spelling), made).toThrow(/authenticat|master key/)
})

// Written by the release before sealText existed: a cursor and a ticket.
test.each([
  ['base64url', 'MjAyNi5h.EdD65LOP91x2R_whHZycirN0YH-O7-JuMkfFeuOyOg-XJuetk-wZzyit'],
  ['plain', '2026.a.kGXVSMpdLYTPDoT9oXTGskbo854Bup8qXV3pRlkGz4gsPE5FaQlTA2zu'],
] as const)('a token of an earlier release still opens (%s key id)', (spelling, token) => {
  expect(openText(sealer, token, 'list', spelling)).toBe('{"from":"a/1"}')
})
