import { execFileSync, spawn } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type DiskLimit, type DiskWatch, watchDisk } from './watch-disk.ts'

const all = mkdtempSync(join(tmpdir(), 'watch-disk-'))
afterAll(() => rmSync(all, { recursive: true, force: true }))
const MiB = 2 ** 20
let made = 0

interface Watched {
  folder: string
  watch: DiskWatch
  full: Promise<'bytes' | 'entries'>
  warnings: unknown[]
}

function open(limit: Partial<DiskLimit> = {}, prepare: (folder: string) => void = () => {}): Watched {
  const folder = join(all, String((made += 1)))
  mkdirSync(folder)
  prepare(folder)
  const { promise: full, resolve: onFull } = Promise.withResolvers<'bytes' | 'entries'>()
  const warnings: unknown[] = []
  const onWarning = (error: unknown): void => void warnings.push(error)
  const defaults = { folder, bytesMax: 8 * MiB, entriesMax: 1_000, listProcesses: () => [], onFull, onWarning }
  return { folder, watch: watchDisk({ ...defaults, ...limit }), full, warnings }
}

describe('the watch of a folder', unless(process.platform === 'linux' ? undefined : 'it is of Linux'), () => {
  test('tells of too many bytes as they are written', async () => {
    const { folder, full, watch } = open()
    for (let n = 0; n < 9; n++) writeFileSync(join(folder, `${n}`), Buffer.alloc(MiB, 1))
    expect(await full).toBe('bytes')
    expect(await watch.look()).toBe('bytes')
  })

  test('tells of too many files, folders, links and names, and of none at the limit', async () => {
    const watchAfter = (more: (folder: string) => void) =>
      open({ entriesMax: 10 }, (folder) => {
        for (let n = 0; n < 6; n++) writeFileSync(join(folder, `${n}`), '')
        mkdirSync(join(folder, 'folder'))
        linkSync(join(folder, '0'), join(folder, 'again'))
        // Including the folder itself these are 9.
        more(folder)
      })
    const within = watchAfter((folder) => linkSync(join(folder, '0'), join(folder, 'once-more')))
    expect(await within.watch.look()).toBeUndefined()
    const beyond = watchAfter((folder) => {
      for (const name of ['b', 'c']) linkSync(join(folder, '0'), join(folder, name))
    })
    expect(await beyond.full).toBe('entries')
    within.watch.stop()
  })

  test('counts what a file takes, and not how long it is', async () => {
    const { watch } = open({}, (folder) => {
      writeFileSync(join(folder, 'hole'), '')
      truncateSync(join(folder, 'hole'), 1024 * MiB)
    })
    expect(await watch.look()).toBeUndefined()
    watch.stop()
  })

  test('counts a file that was removed and is open, once for all that hold it', async () => {
    const code = `const fs = require('node:fs'); fs.openSync(process.argv[1], 'r'); fs.openSync(process.argv[1], 'r'); console.log('open'); process.stdin.resume()`
    const prepare = (folder: string): void => writeFileSync(join(folder, 'file'), Buffer.alloc(6 * MiB, 1))
    const programs: ReturnType<typeof spawn>[] = []
    const { folder, watch } = open({ listProcesses: () => programs.flatMap(({ pid = 0 }) => pid) }, prepare)
    for (let n = 0; n < 2; n++) {
      const program = spawn(process.execPath, ['-e', code, join(folder, 'file')], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      await once(program.stdout, 'data')
      programs.push(program)
    }
    unlinkSync(join(folder, 'file'))
    expect(await watch.look()).toBeUndefined()
    writeFileSync(join(folder, 'second'), Buffer.alloc(3 * MiB, 1))
    expect(await watch.look()).toBe('bytes')
    for (const program of programs) {
      program.stdin?.end()
      await once(program, 'exit')
    }
    expect(await watch.look()).toBeUndefined()
    watch.stop()
  })

  test('goes on where du names more missing files than anybody can read', async () => {
    // Simulates a build that removes thousands of files with long names while du runs; then runs the real du.
    const programs = join(all, 'programs')
    mkdirSync(programs)
    const real = execFileSync('/bin/sh', ['-c', 'command -v du'], { encoding: 'utf8' }).trim()
    const script = `#!/bin/sh\nhead -c 2000000 /dev/zero | tr '\\0' x >&2\nexec ${real} "$@"\n`
    writeFileSync(join(programs, 'du'), script, { mode: 0o755 })
    // oxlint-disable-next-line node/no-process-env -- the watch finds du there
    vi.stubEnv('PATH', `${programs}:${process.env['PATH']}`)
    onTestFinished(() => void vi.unstubAllEnvs())
    const { folder, full, watch, warnings } = open()
    expect(await watch.look()).toBeUndefined()
    writeFileSync(join(folder, 'file'), Buffer.alloc(9 * MiB, 1))
    expect(await full).toBe('bytes')
    expect(warnings).toEqual([])
  })

  test('says once that a folder cannot be measured', async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    const { watch } = open({ folder: join(all, 'missing'), onWarning: resolve })
    expect(String(await promise)).toContain('missing')
    await expect(watch.look()).rejects.toThrow(/missing/)
    watch.stop()
  })
})
