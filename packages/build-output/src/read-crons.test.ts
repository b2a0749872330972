import { describe, expect, test } from 'vitest'
import { minuteOf, readCronSchedule } from './cron-schedule.ts'
import { readOutput } from './read-output.ts'
import { treeOf } from './tree-of.ts'

const CONFIG = '.vercel/output/config.json'
const read = (crons: unknown) => readOutput(treeOf({ [CONFIG]: JSON.stringify({ version: 3, crons }) }), '')

describe('crons of config.json', () => {
  test('are kept, spaces and repetitions apart', async () => {
    const { manifest, warnings } = await read([
      { path: '/api/nightly?full=1', schedule: '0 5 * * *' },
      { path: '/api/weekly', schedule: ' 0  8 * * MON-fri ' },
      { path: '/api/nightly?full=1', schedule: '0  5 * * *' },
      { path: '/api/nightly?full=1', schedule: '0 6 * * *', comment: 'ignored' },
    ])
    expect(manifest.crons).toEqual([
      { path: '/api/nightly?full=1', schedule: '0 5 * * *' },
      { path: '/api/weekly', schedule: '0 8 * * MON-fri' },
      { path: '/api/nightly?full=1', schedule: '0 6 * * *' },
    ])
    expect(warnings).toEqual([])
  })

  test.each([undefined, []])('are absent where there are none: %s', async (crons) => {
    expect((await read(crons)).manifest).not.toHaveProperty('crons')
  })

  test('are a hundred at most', async () => {
    const crons = Array.from({ length: 101 }, (_, n) => ({ path: `/${n}`, schedule: '0 0 * * *' }))
    expect((await read(crons.slice(1))).manifest.crons).toHaveLength(100)
    await expect(read(crons)).rejects.toThrow(`${CONFIG}: crons: a deployment has at most 100.`)
  })

  test('have paths of 2,048 bytes at most', async () => {
    const path = `/${'a'.repeat(2_047)}`
    expect((await read([{ path, schedule: '0 0 * * *' }])).manifest.crons).toEqual([{ path, schedule: '0 0 * * *' }])
    await expect(read([{ path: `${path}a`, schedule: '0 0 * * *' }])).rejects.toThrow('it has more than 2048 bytes.')
  })

  test.each([
    ['no object', 'daily', 'crons[0]: Invalid input: expected object, received string.'],
    ['without a path', { schedule: '0 0 * * *' }, 'crons[0]: path: Invalid input'],
    ['with an address', { path: 'https://a.example/', schedule: '0 0 * * *' }, 'path: it has to begin with /.'],
    ['with a path of other letters', { path: '/grün', schedule: '0 0 * * *' }, 'path: it has to be percent-encoded'],
    ['with a space in its path', { path: '/a b', schedule: '0 0 * * *' }, 'path: it has to be percent-encoded'],
    ['with a fragment', { path: '/a#b', schedule: '0 0 * * *' }, 'path: it has to be percent-encoded'],
    ['without a schedule', { path: '/' }, 'crons[0]: schedule: Invalid input'],
    [
      'with a very long schedule',
      { path: '/', schedule: `${'1,'.repeat(128)}1 * * * *` },
      'it has more than 256 characters',
    ],
  ])('refuse one %s', async (_, cron, message) => {
    await expect(read([cron])).rejects.toThrow(message)
  })

  test.each([
    ['* * * *', 'it has 4 fields, and a schedule has 5'],
    ['* * * * * *', 'it has 6 fields'],
    ['@daily', 'it has 1 fields'],
    ['60 * * * *', 'got value 60 expected range 0-59'],
    ['* 24 * * *', 'got value 24 expected range 0-23'],
    ['* * 0 * *', 'got value 0 expected range 1-31'],
    ['* * * 13 *', 'got value 13 expected range 1-12'],
    ['* * * * 8', 'got value 8 expected range 0-7'],
    ['5-1 * * * *', 'Invalid range: 5-1'],
    ['*/0 * * * *', 'cannot repeat at every 0 time'],
    ['1,,2 * * * *', 'Invalid list value format'],
    ['H * * * *', '"H" is not understood'],
    ['0 0 L * *', '"L" is not understood'],
    ['0 0 ? * 1#2', '"?" is not understood'],
    ['0 0 30 2 *', 'Invalid explicit day of month'],
  ])('refuse the schedule %s', async (schedule, reason) => {
    const where = `${CONFIG}: crons[1]: "${schedule}" is no cron expression: `
    const failing = read([
      { path: '/', schedule: '0 0 * * *' },
      { path: '/', schedule },
    ])
    await expect(failing).rejects.toThrow(where)
    await expect(failing).rejects.toThrow(reason)
  })
})

describe('a schedule', () => {
  const at = (text: string) => new Date(`${text}Z`)

  test.each([
    ['* * * * *', '2026-11-25T09:30:59.999', '2026-11-25T09:31:00.000'],
    ['*/15 9-10 * * *', '2026-11-25T10:45:00.000', '2026-11-26T09:00:00.000'],
    ['0 0 29 2 *', '2026-11-25T00:00:00.000', '2028-02-29T00:00:00.000'],
    // Either day suffices, as in crontab(5).
    ['0 0 13 * 5', '2026-11-25T00:00:00.000', '2026-11-27T00:00:00.000'],
    ['0 0 * * 7', '2026-11-25T00:00:00.000', '2026-11-29T00:00:00.000'],
    ['30 8 1 JAN,jul *', '2026-11-25T00:00:00.000', '2027-01-01T08:30:00.000'],
    // The hour that is skipped in Europe when daylight saving time begins.
    ['30 2 29 3 *', '2026-03-01T00:00:00.000', '2026-03-29T02:30:00.000'],
  ])('%s is next due, after %s, at %s', async (text, after, next) => {
    const schedule = await readCronSchedule(text)
    expect(schedule.next(at(after))).toEqual(at(next))
    expect(schedule.isDueAt(at(next))).toBe(true)
    expect(schedule.isDueAt(new Date(at(next).getTime() + 60_000))).toBe(text === '* * * * *')
  })

  test('is due in minutes that begin with their minute', () => {
    expect(minuteOf(at('2026-11-25T09:30:59.999'))).toEqual(at('2026-11-25T09:30:00.000'))
  })
})
