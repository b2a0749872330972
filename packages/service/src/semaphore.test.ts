import { expect, test } from 'vitest'
import { createSemaphore } from './semaphore.ts'

test('at most the given number run at once, as many wait in order, and the next is refused', async () => {
  const withSlot = createSemaphore({ kind: 'test', slots: 2, queueMax: 2, refuse: () => new Error('full') })
  const order: number[] = []
  let running = 0
  let most = 0
  const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
  const work = (n: number) =>
    withSlot(async () => {
      most = Math.max(most, ++running)
      order.push(n)
      await gates[n]?.promise
      running--
    })
  const all = [0, 1, 2, 3].map(work)
  await expect(work(4)).rejects.toThrow('full')
  expect(withSlot.requireRoom).toThrow('full')
  for (const gate of gates) gate.resolve()
  await Promise.all(all)
  expect(order).toEqual([0, 1, 2, 3])
  expect(most).toBe(2)
  withSlot.requireRoom()
})

test('a slot comes back when the work fails', async () => {
  const withSlot = createSemaphore({ kind: 'test', slots: 1, queueMax: 0, refuse: () => new Error('full') })
  await expect(withSlot(() => Promise.reject(new Error('broken')))).rejects.toThrow('broken')
  await expect(withSlot(async () => 'fine')).resolves.toBe('fine')
})

test('work that is called off before its turn is not begun, and leaves its place to the next', async () => {
  const withSlot = createSemaphore({ kind: 'test', slots: 1, queueMax: 2, refuse: () => new Error('full') })
  const gate = Promise.withResolvers<void>()
  const first = withSlot(() => gate.promise)
  const leaving = new AbortController()
  const begun: string[] = []
  const called = withSlot(async () => void begun.push('called off'), leaving.signal)
  const next = withSlot(async () => void begun.push('next'))
  expect(withSlot.requireRoom).toThrow('full')
  leaving.abort(new Error('not any more'))
  await expect(called).rejects.toThrow('not any more')
  withSlot.requireRoom()
  gate.resolve()
  await Promise.all([first, next])
  expect(begun).toEqual(['next'])
  await expect(withSlot(async () => 'begun', leaving.signal)).rejects.toThrow('not any more')
})

test('work of the first lane is begun before all that waits, has room of its own, and is refused beyond that', async () => {
  const withSlot = createSemaphore({
    kind: 'test',
    slots: 1,
    queueMax: 2,
    firstQueueMax: 2,
    refuse: () => new Error('full'),
  })
  const gate = Promise.withResolvers<void>()
  const order: string[] = []
  const note = (name: string) => async () => void order.push(name)
  const holder = withSlot(() => gate.promise)
  const ordinary = [withSlot(note('a')), withSlot(note('b'))]
  await expect(withSlot(note('c'))).rejects.toThrow('full')
  withSlot.first.requireRoom()
  const first = [withSlot.first(note('x')), withSlot.first(note('y'))]
  expect(withSlot.first.requireRoom).toThrow('full')
  await expect(withSlot.first(note('z'))).rejects.toThrow('full')
  gate.resolve()
  await Promise.all([holder, ...ordinary, ...first])
  expect(order).toEqual(['x', 'y', 'a', 'b'])
})

test('without a size the first lane has no queue: its work takes a free slot or is refused', async () => {
  const withSlot = createSemaphore({ kind: 'test', slots: 1, queueMax: 1, refuse: () => new Error('full') })
  const gate = Promise.withResolvers<void>()
  const holder = withSlot.first(() => gate.promise)
  await expect(withSlot.first(async () => {})).rejects.toThrow('full')
  gate.resolve()
  await holder
})
