// engines: postgres
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { asc, eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newDeployment } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { buildLogs, deployments } from '../deployments/table.ts'
import { failDeployment } from '../deployments/transitions.ts'
import { insertLines, openBuildLog, recordsOf } from './build-log.ts'
import { createRedaction } from '../deployments/redact.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const rowsOf = (id: string) =>
  platform.api.db.select().from(buildLogs).where(eq(buildLogs.deploymentId, id)).orderBy(asc(buildLogs.createdAt))
async function newLog(secrets: string[] = []) {
  const { id, attempt } = await newDeployment(platform, ana, { status: 'BUILDING' })
  return { id, attempt, log: openBuildLog(platform.api, { id, attempt }, createRedaction(secrets)) }
}

test('lines of one type within a millisecond are one record, others take the next free one (D84)', () => {
  const line = (position: number, type: 'INFO' | 'WARN', text: string) => ({ at: position, type, text })
  const shown = (lines: Parameters<typeof recordsOf>[0], after = 0) =>
    recordsOf(lines, after).map(({ createdAt, type, message }) => [createdAt.getTime(), type, message])
  expect(
    shown([
      line(10, 'INFO', 'a'),
      line(10, 'INFO', 'b'),
      line(10, 'WARN', 'c'),
      line(10, 'WARN', 'd'),
      line(11, 'INFO', 'e'),
    ]),
  ).toEqual([
    [10, 'INFO', 'a\nb'],
    [11, 'WARN', 'c\nd'],
    [12, 'INFO', 'e'],
  ])
  // The clock went back, or another attempt wrote the last record.
  expect(shown([line(5, 'INFO', 'a'), line(6, 'INFO', 'b'), line(30, 'INFO', 'c')], 20)).toEqual([
    [21, 'INFO', 'a\nb'],
    [30, 'INFO', 'c'],
  ])
  const long = 'x'.repeat(4_000)
  const many = recordsOf(
    Array.from({ length: 40 }, () => line(10, 'INFO', long)),
    0,
  )
  expect(many.map(({ message }) => message.length)).toEqual([16 * 4_001 - 1, 16 * 4_001 - 1, 8 * 4_001 - 1])
})

test('lines appear in order, with rising times and ids, and go on behind those of the attempt before', async () => {
  const { id, log } = await newLog()
  for (let n = 0; n < 1_000; n++) log.line(n % 2 ? 'INFO' : 'DEBUG', `line ${n}`)
  await log.flush()
  await platform.api.db.update(deployments).set({ attempt: 1 }).where(eq(deployments.id, id))
  platform.clock.advance(-60_000) // another worker, whose clock is behind
  const next = openBuildLog(platform.api, { id, attempt: 1 }, createRedaction([]))
  next.line('INFO', 'of the next attempt')
  await next.close()
  platform.clock.advance(60_000)
  const rows = await rowsOf(id)
  expect(rows.flatMap(({ message }) => message.split('\n'))).toEqual([
    ...Array.from({ length: 1_000 }, (_, n) => `line ${n}`),
    'of the next attempt',
  ])
  const ids = rows.map((row) => row.id)
  expect(ids).toEqual(ids.toSorted())
  const times = rows.map(({ createdAt }) => createdAt.getTime())
  expect(new Set(times).size).toBe(times.length)
})

test('a line of the platform that quotes a project has no control sequences of a terminal', async () => {
  const { id, log } = await newLog()
  log.line('WARN', '.nvmrc asks for Node \u001b[31m20\u001b[0m')
  await log.close()
  expect((await rowsOf(id)).map(({ message }) => message)).toEqual(['.nvmrc asks for Node 20'])
})

test('what an attempt writes after it was taken over, or after the end, is dropped', async () => {
  const { id, attempt, log } = await newLog()
  log.line('INFO', 'kept')
  await log.flush()
  await platform.api.db
    .update(deployments)
    .set({ attempt: attempt + 1 })
    .where(eq(deployments.id, id))
  log.line('INFO', 'late')
  await log.close()
  const time = platform.api.now()
  await platform.api.db.transaction((tx) =>
    failDeployment(tx, time, { id }, 'Cancelled', 'deployment.cancelled', { kind: 'platform' }),
  )
  const line = { at: time.getTime(), type: 'INFO' as const, text: 'after the end' }
  expect(await insertLines(platform.api.db, { id, attempt: attempt + 1 }, [line])).toBe(false)
  expect(await insertLines(platform.api.db, { id: newId(), attempt: 0 }, [line])).toBe(false)
  expect((await rowsOf(id)).map(({ message }) => message)).toEqual(['kept'])
})

test('an attempt that is taken over writes no more lines', async () => {
  const { id, attempt } = await newLog()
  const line = { at: platform.clock.now().getTime(), type: 'INFO', text: 'late' } as const
  const written = await holding(
    platform.databaseUrl,
    (held) => held`update deployments set attempt = attempt + 1 where id = ${id}`,
    [() => platform.api.db.transaction((tx) => insertLines(tx, { id, attempt }, [line]))],
  )
  expect(written).toEqual([false])
  expect(await rowsOf(id)).toEqual([])
})

test('a stream is cut into lines after its secrets are gone, and long lines end with a mark', async () => {
  const { id, log } = await newLog(['s3cret-value'])
  const stream = log.stream('ERROR')
  const bytes = Buffer.from(`é one s3cret-value\r\n${'x'.repeat(4_090)}s3cret-value\nNUL \0 and the last`)
  for (const byte of bytes) stream.write(Buffer.from([byte]))
  stream.end()
  await log.close()
  const lines = (await rowsOf(id)).flatMap(({ message }) => message.split('\n'))
  expect(lines).toHaveLength(3)
  expect([lines[0], lines[2]]).toEqual(['é one [redacted]', 'NUL \u{fffd} and the last'])
  expect(lines[1]).toMatch(/^x+ … \(cut\)$/)
  expect(Buffer.byteLength(lines[1] ?? '')).toBeLessThanOrEqual(4_096)
  expect(lines.join('')).not.toContain('s3cret')
})

test('a line without end is not kept in memory', async () => {
  const { id, log } = await newLog()
  const stream = log.stream('INFO')
  for (let n = 0; n < 100; n++) stream.write(Buffer.alloc(100_000, 'y'))
  stream.write(Buffer.from('\nnext\n'))
  stream.end()
  await log.close()
  const lines = (await rowsOf(id)).flatMap(({ message }) => message.split('\n'))
  expect([lines.length, lines[1]]).toEqual([2, 'next'])
})

test('after 20,000 lines one says that the rest is left out', async () => {
  const { id, log } = await newLog()
  for (let n = 0; n < 21_000; n++) log.line('INFO', `${n}`)
  await log.close()
  const lines = (await rowsOf(id)).flatMap(({ message }) => message.split('\n'))
  expect(lines).toHaveLength(20_001)
  expect(lines.at(-1)).toBe('The log has 20000 lines; the rest is left out')
})
