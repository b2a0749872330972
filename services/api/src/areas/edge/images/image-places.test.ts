import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openImagePlaces } from './image-places.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** The states of requests for places, in the order of the requests. */
function ask(
  places: ReturnType<typeof openImagePlaces>,
  deploymentId: string,
  count: number,
  organizationId = `of ${deploymentId}`,
) {
  return Array.from({ length: count }, () => {
    const options: { state: 'waits' | 'entered' | 'refused'; leave: () => void } = { state: 'waits', leave: () => {} }
    places.take({ deploymentId, organizationId }).then(
      (leave) => void Object.assign(options, { state: 'entered', leave }),
      () => void (options.state = 'refused'),
    )
    return options
  })
}
const statesOf = async (options: readonly { state: string }[]) => {
  await vi.advanceTimersByTimeAsync(0)
  return Object.fromEntries(
    Map.groupBy(options, ({ state }) => state)
      .entries()
      .map(([state, all]) => [state, all.length]),
  )
}

test('four images of a deployment are made at a time, 32 requests wait in order, and more are refused', async () => {
  const places = openImagePlaces()
  const all = ask(places, 'a', 40)
  expect(await statesOf(all)).toEqual({ entered: 4, waits: 32, refused: 4 })
  expect(() => places.takeNow({ deploymentId: 'a', organizationId: 'of a' })).toThrow('Too many new images')
  all[1]!.leave()
  await statesOf(all)
  expect(all.slice(0, 6).map(({ state }) => state)).toEqual([...Array.from({ length: 5 }, () => 'entered'), 'waits'])
  for (const each of all) each.leave()
})

test('sixteen of all are made at a time, and a deployment that waits does not hold up another', async () => {
  const places = openImagePlaces()
  const many = ['a', 'b', 'c', 'd'].map((id) => ask(places, id, 5))
  const late = ask(places, 'e', 1)
  expect(await statesOf([...many.flat(), ...late])).toEqual({ entered: 16, waits: 5 })
  // One more of `a` may enter: the first that waits.
  many[1]![0]!.leave()
  expect(await statesOf(late)).toEqual({ waits: 1 })
  many[1]![1]!.leave()
  expect(await statesOf(late)).toEqual({ entered: 1 })
})

test('who waits for ten seconds is refused, and takes no place afterwards', async () => {
  const places = openImagePlaces()
  const all = ask(places, 'a', 5)
  expect(await statesOf(all)).toEqual({ entered: 4, waits: 1 })
  await vi.advanceTimersByTimeAsync(10_000)
  expect(await statesOf(all)).toEqual({ entered: 4, refused: 1 })
  for (const each of all.slice(0, 4)) each.leave()
  expect(await statesOf(ask(places, 'a', 4))).toEqual({ entered: 4 })
})

test('an organization has eight at a time, and leaves places to others', async () => {
  const places = openImagePlaces()
  const own = ['a', 'b', 'c'].flatMap((id) => ask(places, id, 4, 'own'))
  expect(await statesOf(own)).toEqual({ entered: 8, waits: 4 })
  expect(await statesOf(ask(places, 'd', 1, 'other'))).toEqual({ entered: 1 })
  own[0]!.leave()
  expect(await statesOf(own)).toEqual({ entered: 9, waits: 3 })
})

test('64 requests of an organization wait, and 256 of all', async () => {
  const places = openImagePlaces()
  const own = ['a', 'b', 'c'].flatMap((id) => ask(places, id, 36, 'own'))
  expect(await statesOf(own)).toEqual({ entered: 8, waits: 64, refused: 36 })
  const others = Array.from({ length: 7 }, (_, n) => ask(places, `of ${n}`, 40)).flat()
  expect(await statesOf([...own, ...others])).toMatchObject({ entered: 16, waits: 256 })
})
