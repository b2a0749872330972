import { expect, test } from 'vitest'
import { createCircuits } from './circuits.ts'

function atTime() {
  let now = 1_000
  return { circuits: createCircuits(() => now), pass: (ms: number) => void (now += ms) }
}

test('five certain failures in a row open a circuit for ten seconds; then one call tries it out', () => {
  const { circuits, pass } = atTime()
  for (let n = 0; n < 5; n++) {
    expect(circuits.mayCall('a')).toBe(true)
    circuits.failed('a', 'ana', true)
  }
  expect(circuits.mayCall('a')).toBe(false)
  expect(circuits.mayCall('b')).toBe(true)
  pass(9_999)
  expect(circuits.mayCall('a')).toBe(false)
  pass(1)
  expect([circuits.mayCall('a'), circuits.mayCall('a')]).toEqual([true, false])
  circuits.failed('a', 'ana', true)
  expect(circuits.mayCall('a')).toBe(false)
  pass(10_000)
  expect(circuits.mayCall('a')).toBe(true)
  circuits.succeeded('a')
  expect([circuits.mayCall('a'), circuits.mayCall('a')]).toEqual([true, true])
})

test('a success in between begins the count anew', () => {
  const { circuits } = atTime()
  for (let n = 0; n < 20; n++) {
    if (n % 5 === 4) circuits.succeeded('a')
    else circuits.failed('a', 'ana', true)
    expect(circuits.mayCall('a')).toBe(true)
  }
})

test('a call that tries it out and ends without telling leaves that to the next one', () => {
  const { circuits, pass } = atTime()
  for (let n = 0; n < 5; n++) circuits.failed('a', 'ana', true)
  pass(10_000)
  expect(circuits.mayCall('a')).toBe(true)
  circuits.forgotten('a')
  expect(circuits.mayCall('a')).toBe(true)
})

test('all are closed at once', () => {
  const { circuits } = atTime()
  for (let n = 0; n < 5; n++) for (const key of ['a', 'b']) circuits.failed(key, 'ana', true)
  expect([circuits.mayCall('a'), circuits.mayCall('b')]).toEqual([false, false])
  circuits.closeAll()
  expect([circuits.mayCall('a'), circuits.mayCall('b')]).toEqual([true, true])
})

test('failures that a request may be to blame for open it once two callers met them', () => {
  const { circuits } = atTime()
  for (let n = 0; n < 50; n++) circuits.failed('a', 'ana', false)
  expect(circuits.mayCall('a')).toBe(true)
  circuits.failed('a', 'ben', false)
  expect(circuits.mayCall('a')).toBe(false)
})
