import { expect, test } from 'vitest'
import { timeWordsIn } from './time-words.ts'

const NOW = new Date('2026-03-29T12:00:00Z')
const at = (time: string, zone = 'UTC', now = NOW) => timeWordsIn(zone)(new Date(time), now).rough

test.each([
  ['2026-03-29T12:00:30Z', 'just now'],
  ['2026-03-29T11:59:01Z', 'just now'],
  ['2026-03-29T11:59:00Z', '1 minute ago'],
  ['2026-03-29T11:01:00Z', '59 minutes ago'],
  ['2026-03-29T11:00:00Z', 'today, 11:00 UTC'],
  ['2026-03-29T00:00:00Z', 'today, 00:00 UTC'],
  ['2026-03-28T23:59:00Z', 'yesterday, 23:59 UTC'],
  ['2026-03-28T00:00:00Z', 'yesterday, 00:00 UTC'],
  ['2026-03-27T23:59:00Z', '27 Mar, 23:59 UTC'],
  ['2026-01-01T00:00:00Z', '1 Jan, 00:00 UTC'],
  ['2025-12-31T23:59:00Z', '31 Dec 2025, 23:59 UTC'],
])('at noon of 29 March 2026, %s is "%s"', (time, words) => {
  expect(at(time)).toBe(words)
})

test('a day that lost an hour to summer time is a day all the same', () => {
  // Berlin went from 02:00 to 03:00 on the 29th. 24 hours before 00:30 on the 30th it was 23:30 on the 28th.
  const now = new Date('2026-03-29T22:30:00Z')
  expect(at('2026-03-28T23:00:00Z', 'Europe/Berlin', now)).toBe('yesterday, 00:00 Europe/Berlin')
  expect(at('2026-03-28T22:45:00Z', 'Europe/Berlin', now)).toBe('28 Mar, 23:45 Europe/Berlin')
})

test('the exact time has seconds and names its zone', () => {
  expect(timeWordsIn('UTC')(new Date('2026-11-28T09:16:22Z'), NOW).exact).toBe('28 Nov 2026, 09:16:22 UTC')
})
