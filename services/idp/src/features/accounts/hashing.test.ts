import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import { Unavailable } from '@platform/errors/api-error'
import { expect, onTestFinished, test, vi } from 'vitest'
import { childrenOf, hasherOf } from '../../../test/hasher.ts'
import { createHashing } from './hashing.ts'

// The real cost, process and priority.

test('a hash fits its password, normalised, and no other; one that is none fails by itself', async () => {
  const hashing = createHashing(60_000)
  onTestFinished(() => hashing.close())
  const hash = await hashing.hash('pässword')
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  const [right, wrong, broken] = await Promise.allSettled([
    hashing.verify(hash, 'pa\u0308ssword'),
    hashing.verify(hash, 'password'),
    hashing.verify('no hash', 'password'),
  ])
  expect(right).toMatchObject({ value: true })
  expect(wrong).toMatchObject({ value: false })
  expect(broken).toMatchObject({ status: 'rejected' })
})

test('when its process is killed those who wait are told 503, and the next password starts another', async () => {
  const hashing = createHashing(60_000)
  onTestFinished(() => hashing.close())
  const hash = await hashing.hash('password')
  const pid = hasherOf(process.pid)
  process.kill(pid, 'SIGSTOP') // it answers none of them, however long we take
  const waiting = Promise.allSettled(Array.from({ length: 20 }, () => hashing.verify(hash, 'password')))
  process.kill(pid, 'SIGKILL')
  const told = Array.from({ length: 20 }, () => ({
    status: 'rejected',
    reason: expect.any(Unavailable) as Unavailable,
  }))
  expect(await waiting).toEqual(told)
  expect(await hashing.verify(hash, 'password')).toBe(true)
})

test('its process ends after a minute without a password, and another is there for the next', async () => {
  const hashing = createHashing(60_000)
  onTestFinished(() => hashing.close())
  const hash = await hashing.hash('password')
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  expect(await hashing.verify(hash, 'password')).toBe(true)
  const pid = hasherOf(process.pid)
  vi.advanceTimersByTime(59_999)
  expect(childrenOf(process.pid)).toEqual([pid])
  vi.advanceTimersByTime(1)
  vi.useRealTimers()
  await vi.waitFor(() => expect(childrenOf(process.pid)).toEqual([]), { timeout: 60_000 })
  expect(await hashing.verify(hash, 'password')).toBe(true)
})

test('its process has a low priority, no secret of ours, and ends when ours is killed', async () => {
  const script = `import { createHashing } from ${JSON.stringify(import.meta.resolve('./hashing.ts'))}
    await createHashing(60_000).hash('password')
    setInterval(() => {}, 1_000)
    console.log('ready')`
  const env = { MASTER_KEYS: 'a secret' }
  const service = spawn(process.execPath, ['--input-type=module', '--eval', script], { env })
  onTestFinished(() => void service.kill('SIGKILL'))
  await once(service.stdout, 'data')
  const pid = hasherOf(service.pid)
  expect(getPriority(pid)).toBe(constants.priority.PRIORITY_BELOW_NORMAL)
  if (process.platform === 'linux') expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toContain('MASTER_KEYS')
  service.kill('SIGKILL')
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'), { timeout: 60_000 })
})

test('a command that has hashed ends, though it closes nothing', async () => {
  const script = `import { createHashing } from ${JSON.stringify(import.meta.resolve('./hashing.ts'))}
    console.log(await createHashing(60_000).hash('password'))`
  const command = spawn(process.execPath, ['--input-type=module', '--eval', script])
  onTestFinished(() => void command.kill('SIGKILL'))
  expect(await once(command, 'exit')).toEqual([0, null])
})
