import { InvalidArgumentError } from 'commander'

/** How many letters have to change to make one word the other. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++)
      next.push(
        Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1)),
      )
    row = next
  }
  return row[to.length] ?? 0
}

/** The word that was meant; undefined if none is near. */
export function nearest(typed: string, words: readonly string[]): string | undefined {
  const [small, isBegun] = [
    typed.toLowerCase(),
    (text: string, start: string) => start !== '' && text.startsWith(start),
  ]
  const begun = words.find((word) => isBegun(word.toLowerCase(), small) || isBegun(small, word.toLowerCase()))
  if (begun) return begun
  const near = words
    .map((word) => ({ word, changes: distance(typed.toLowerCase(), word.toLowerCase()) }))
    .filter(({ word, changes }) => changes <= Math.max(2, word.length / 3))
  return near.toSorted((a, b) => a.changes - b.changes)[0]?.word
}

/** Reads one of some words. */
export const oneOf =
  <const T extends string>(...words: T[]) =>
  (typed: string): T => {
    const word = words.find((each) => each.toLowerCase() === typed.toLowerCase())
    if (word !== undefined) return word
    const meant = nearest(typed, words)
    throw new InvalidArgumentError(`Expected ${words.join(', ')}.${meant ? ` (Did you mean ${meant}?)` : ''}`)
  }

/** Reads a whole number, from 1. */
export function count(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError('Expected a whole number, from 1.')
  return Number(text)
}

/** Adds one to those that were given before. Several can stand in one, with commas between. */
export const collected = (text: string, before: string[] = []): string[] => [
  ...before,
  ...text.split(',').filter((each) => each !== ''),
]

const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Reads a time: an instant such as `2026-11-28T12:00:00Z`, or how long ago it was, such as `10m`. */
export function instant(text: string): Date {
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const time =
    amount === undefined ? new Date(text) : new Date(Date.now() - Number(amount) * UNITS[unit as keyof typeof UNITS])
  if (Number.isNaN(time.getTime()) || (amount === undefined && !/^\d{4}-\d\d-\d\d/.test(text)))
    throw new InvalidArgumentError(
      'Expected how long ago, such as 30s, 10m, 2h or 1d, or an instant such as 2026-11-28T12:00:00Z.',
    )
  return time
}
