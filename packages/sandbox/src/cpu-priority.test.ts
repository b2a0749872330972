import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { CALM_MS, createCpuPriority, CROWD, LOOK_MS, START_MICROSECONDS } from './cpu-priority.ts'

/** Microseconds used by each owner. */
let used: Record<string, number>
let processes: number
let idle: string[]
let open: number
const priority = () =>
  createCpuPriority({
    openUsage: (owner) => {
      open += 1
      return { microseconds: () => used[owner] ?? 0, processes: () => processes, close: () => (open -= 1) }
    },
    setIdle: (owner, isIdle) => (idle = isIdle ? [...idle, owner] : idle.filter((each) => each !== owner)),
  })

beforeEach(() => {
  vi.useFakeTimers()
  used = {}
  processes = 1
  idle = []
  open = 0
})
afterEach(() => void vi.useRealTimers())

/** Runs a number of checks, between each of which the owner uses a fraction of a core. */
const use = (owner: string, share: number, looks: number): void => {
  for (let look = 0; look < looks; look++) {
    used[owner] = (used[owner] ?? 0) + share * LOOK_MS * 1_000
    vi.advanceTimersByTime(LOOK_MS)
  }
}

test('an owner that keeps half a core busy is idle until it has been calm for long', () => {
  const owners = priority()
  owners.add('a')
  owners.add('b')
  use('a', 0.4, 20)
  expect(idle).toEqual([])
  use('a', 1, 1)
  expect(idle).toEqual([])
  use('a', 0.4, 2)
  use('a', 1, 2)
  expect(idle).toEqual(['a'])
  use('a', 0.1, CALM_MS / LOOK_MS)
  expect(idle).toEqual(['a'])
  use('a', 0.1, 1)
  expect(idle).toEqual([])
  owners.close()
  expect(open).toBe(0)
})

test('the start of a command is no work, however short the time in which it is done', () => {
  const owners = priority()
  owners.add('a')
  owners.allowStart('a')
  use('a', 2, Math.floor(START_MICROSECONDS / LOOK_MS / 2_000))
  expect(idle).toEqual([])
  use('a', 0.5, 50)
  expect(idle).toEqual([])
  use('a', 1, 2)
  expect(idle).toEqual(['a'])
  owners.close()
})

test('an owner whose group goes and comes back is idle from the start, or forgotten in time', () => {
  const owners = priority()
  owners.add('a')
  use('a', 1, 2)
  owners.remove('a')
  expect(open).toBe(0)
  idle = []
  used['a'] = 0
  owners.add('a')
  expect(idle).toEqual(['a'])
  owners.remove('a')
  idle = []
  vi.advanceTimersByTime(CALM_MS + 2 * LOOK_MS)
  owners.add('a')
  expect(idle).toEqual([])
  owners.close()
})

test('an owner with an end to meet gets a share every now and then, however busy the others are', () => {
  const owners = createCpuPriority({
    calmMs: 2 * LOOK_MS,
    openUsage: (owner) => ({ microseconds: () => used[owner] ?? 0, processes: () => processes, close: () => {} }),
    setIdle: (owner, isIdle) => (idle = isIdle ? [owner] : []),
  })
  owners.add('a')
  use('a', 1, 2)
  expect(idle).toEqual(['a'])
  // While idle, it gets no CPU time.
  use('a', 0, 3)
  expect(idle).toEqual([])
  use('a', 1, 3)
  expect(idle).toEqual(['a'])
  owners.close()
})

test('an owner with a crowd of processes is not idle, however busy', () => {
  const owners = priority()
  owners.add('a')
  processes = CROWD + 1
  use('a', 1, 5)
  expect(idle).toEqual([])
  processes = CROWD
  use('a', 1, 1)
  expect(idle).toEqual(['a'])
  processes = CROWD + 1
  use('a', 1, 1)
  expect(idle).toEqual([])
  owners.close()
})

test('an idle owner has normal priority while a command of its is killed, and is idle from the start if it returns', () => {
  const owners = priority()
  owners.add('a')
  use('a', 1, 2)
  expect(idle).toEqual(['a'])
  owners.allowEnd('a')
  expect(idle).toEqual([])
  use('a', 1, 10)
  expect(idle).toEqual([])
  use('a', 1, 11)
  expect(idle).toEqual(['a'])
  owners.allowEnd('a')
  owners.remove('a')
  owners.add('a')
  expect(idle).toEqual(['a'])
  owners.close()
})

test('an idle owner that does not answer has normal priority for a while if it got no CPU', () => {
  const owners = priority()
  owners.add('a')
  use('a', 1, 20)
  owners.allowAnswer('a')
  expect(idle).toEqual(['a'])
  use('a', 0.01, 10)
  owners.allowAnswer('a')
  expect(idle).toEqual([])
  use('a', 1, 19)
  expect(idle).toEqual([])
  use('a', 1, 1)
  expect(idle).toEqual(['a'])
  owners.close()
})
