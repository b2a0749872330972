import { setImmediate as untilNextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { followLinks } from './follow-links.ts'

/** Folders that link to each other twice: 2 ** 60 paths. */
const endless = new Map(
  Array.from({ length: 60 }, (_, n) =>
    ['a', 'b'].map((name): [string, string] => [`${n}/${name}`, `../${n + 1}`]),
  ).flat(),
)
const follow = (signal: AbortSignal) =>
  followLinks(new Map<string, { bytes: number }>(), endless, { places: { has: () => true }, bytesMax: 1, signal })

test('an archive whose links have millions of paths lets other work go on until it is refused', async () => {
  const following = follow(new AbortController().signal).catch(String)
  const over = following.then(() => 'over')
  let turns = 0
  while ((await Promise.race([over, untilNextTurn('not yet')])) === 'not yet') turns++
  expect(await following).toMatch(/becomes too large once its links are followed/)
  expect(turns).toBeGreaterThan(100)
})

test('following links ends with the reason of a stop that comes meanwhile', async () => {
  const stopping = new AbortController()
  const following = follow(stopping.signal)
  await untilNextTurn()
  stopping.abort(new Error('stopped'))
  await expect(following).rejects.toThrow('stopped')
})
