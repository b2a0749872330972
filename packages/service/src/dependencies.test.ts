import type { Logger } from '@platform/runtime/logger'
import { register } from 'prom-client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { watchDependencies } from './dependencies.ts'

const up = async () => {
  const { values = [] } = (await register.getSingleMetric('dependency_up')?.get()) ?? {}
  return Object.fromEntries(values.map(({ labels, value }) => [labels.dependency, value]))
}

test('a dependency that goes away is 0 and one warning, until it is back, and is never asked twice at once', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const lines: [string, object, string][] = []
  const note = (level: string) => (details: object, message: string) => void lines.push([level, details, message])
  const logger = { warn: note('warn'), info: note('info') } as unknown as Logger
  let answer = async (): Promise<void> => {}
  let asked = 0
  const check = () => {
    asked++
    return answer()
  }
  const stop = watchDependencies({ objects: { variable: 'OBJECTS_URL', check } }, logger)
  const rounds = (count: number) => vi.advanceTimersByTimeAsync(count * 15_000)

  await rounds(0)
  expect([asked, await up(), lines]).toEqual([1, { objects: 1 }, []])
  const error = new Error('refused')
  answer = async () => {
    throw error
  }
  await rounds(3)
  expect([asked, await up(), lines]).toEqual([
    4,
    { objects: 0 },
    [
      [
        'warn',
        { dependency: 'objects', err: error },
        'The dependency objects (OBJECTS_URL) does not answer, or refuses access',
      ],
    ],
  ])
  answer = async () => {}
  await rounds(1)
  expect([await up(), lines.length, lines[1]?.[0]]).toEqual([{ objects: 1 }, 2, 'info'])

  // A check that hangs counts as away after 5 s, and the next one waits for it.
  const hanging = Promise.withResolvers<void>()
  answer = () => hanging.promise
  await rounds(3)
  expect([asked, await up()]).toEqual([6, { objects: 0 }])
  answer = async () => {}
  hanging.resolve()
  await rounds(1)
  expect([asked, await up()]).toEqual([7, { objects: 1 }])

  const last = Promise.withResolvers<void>()
  answer = () => last.promise
  await vi.advanceTimersByTimeAsync(15_000)
  const linesBefore = lines.length
  stop()
  last.reject(error)
  await rounds(2)
  expect([asked, await up(), lines.length]).toEqual([8, { objects: 1 }, linesBefore])
})
