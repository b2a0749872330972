import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, describe, expect, test } from 'vitest'
import { findLimitObstacle, runLimited } from './limited-program.ts'
import { findTestObstacle } from './test-obstacle.ts'

const MiB = 2 ** 20
const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'unshare', 'mount']) ?? findLimitObstacle()
const LIMIT = 400 * MiB

describe('in a container with a limit of memory', unless(obstacle), () => {
  // Not the folder of temporary files, which may be in memory.
  const folder = mkdtempSync('/var/tmp/memory-guard-')
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Holds 150 MiB at first, and a piece more for whatever it reads. */
  const LARGE = `const kept = [Buffer.alloc(${150 * MiB}, 1)]; console.log('up'); process.stdin.on('data', () => kept.push(Buffer.alloc(${6 * MiB}, 1)))`
  const SMALL = `const kept = Buffer.alloc(${40 * MiB}, 1); console.log(require('node:fs').readFileSync('/proc/self/oom_score_adj', 'utf8').trim()); setInterval(() => kept, 1000)`

  test('the command that holds most ends before the kernel ends any, and cached files count for nothing', async () => {
    const code = `
      import { once } from 'node:events'
      import { closeSync, ftruncateSync, openSync, readdirSync, readFileSync, readSync, rmSync } from 'node:fs'
      import { setTimeout as sleep } from 'node:timers/promises'
      import { openSandbox } from ${JSON.stringify(join(import.meta.dirname, 'open-sandbox.ts'))}
      const [, group] = process.argv
      const warnings = []
      const own = ${JSON.stringify(join(folder, 'walls'))}
      const sandbox = await openSandbox({ folder: own, mode: 'required', egress: 'none', onWarning: (message) => warnings.push(message) })
      const start = async (name, code) => {
        const limits = { memoryBytes: ${1024 * MiB}, processes: 60, openFiles: 256, tmpBytes: ${MiB}, cpuShare: 100 }
        const started = await sandbox.start({ name, networkId: name, argv: [process.execPath, '-e', code], env: {}, mounts: [], workingDirectory: '/tmp', limits })
        const [line] = await once(started.stdout, 'data')
        return { started, line: String(line).trim() }
      }
      const small = await start('small', ${JSON.stringify(SMALL)})
      let smallEnded = false
      small.started.exited.then(() => (smallEnded = true))
      // As much as the group may hold is read from a file, whose pages are then cached; none of it is on the disk.
      const file = openSync(own + '/file', 'w+')
      ftruncateSync(file, ${LIMIT})
      for (const piece = Buffer.alloc(${MiB}); readSync(file, piece) > 0; );
      closeSync(file)
      const name = readdirSync(group).find((each) => ['memory.current', 'memory.usage_in_bytes'].includes(each))
      const full = Number(readFileSync(group + '/' + name, 'utf8')) / ${LIMIT}
      await sleep(500)
      const large = await start('large', ${JSON.stringify(LARGE)})
      const more = setInterval(() => large.started.stdin.write('more'), 100)
      const exit = await large.started.exited
      clearInterval(more)
      console.log(JSON.stringify({ cgroups: sandbox.capabilities.cgroups ?? null, score: small.line, isFull: full > 0.9, exit, smallEnded, warnings }))
      rmSync(own + '/file')
      await sandbox.close()`
    expect(JSON.parse(await runLimited(LIMIT, code))).toEqual({
      cgroups: null,
      score: '1000',
      isFull: true,
      exit: { code: null, signal: 'SIGKILL', cause: 'crowded' },
      smallEnded: false,
      warnings: [expect.stringMatching(/^Hardly any memory is left .*: large held most, and was ended\.$/)],
    })
  })

  test('a process that fills the container by itself ends no command for that, and says so once', async () => {
    const code = `
      import { readFileSync } from 'node:fs'
      import { setTimeout as sleep } from 'node:timers/promises'
      import { openSandbox } from ${JSON.stringify(join(import.meta.dirname, 'open-sandbox.ts'))}
      const warnings = []
      const sandbox = await openSandbox({ folder: ${JSON.stringify(join(folder, 'own'))}, mode: 'none', onWarning: (message) => warnings.push(message) })
      const limits = { memoryBytes: ${MiB}, processes: 60, openFiles: 256, tmpBytes: ${MiB}, cpuShare: 100 }
      const started = await sandbox.start({ name: 'calm', networkId: 'calm', argv: ['/bin/sleep', '1000'], env: {}, mounts: [], workingDirectory: '/tmp', limits })
      let ended = false
      started.exited.then(() => (ended = true))
      const kept = []
      const ownMb = () => Number(/^RssAnon:\\s+(\\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024
      while (ownMb() < ${0.92 * (LIMIT / MiB)}) kept.push(Buffer.alloc(${2 * MiB}, 1))
      await sleep(1_000)
      console.log(JSON.stringify({ ended, warnings, held: kept.length > 50 }))
      await sandbox.close()`
    expect(JSON.parse(await runLimited(LIMIT, code))).toEqual({
      ended: false,
      warnings: [expect.stringMatching(/^This process itself holds nearly all of the 400 MB that it may have/)],
      held: true,
    })
  })
})
