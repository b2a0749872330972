import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AttemptSandbox, openAttemptSandbox } from './attempt-sandbox.ts'
import { ATTEMPT_PRELUDE, ATTEMPTS } from './attempts.ts'
import { findTestObstacle } from './test-obstacle.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'perl', 'unshare'])

describe('the walls of bubblewrap', unless(obstacle), () => {
  const folder = mkdtempSync(join(tmpdir(), 'walls-'))
  let sandbox: AttemptSandbox

  beforeAll(async () => {
    sandbox = await openAttemptSandbox(folder, { egress: 'none' })
  })

  afterAll(async () => {
    await sandbox?.close()
    rmSync(folder, { recursive: true })
  })

  test('the machine, its own processes and sockets are there to be found', async () => {
    const { world } = sandbox
    const { hostFile, hostSocket, hostAbstractSocket, hostPort, marker } = world
    const code = `${ATTEMPT_PRELUDE}; Promise.all([connect(world.hostSocket), connect('\\0' + world.hostAbstractSocket), connect(world.hostPort)])
      .then((answers) => { console.log(...answers, fs.readFileSync(world.hostFile, 'utf8'), fs.readFileSync('/proc/' + world.hostPid + '/environ', 'utf8').includes(world.marker)); process.exit() })`
    const outside = spawn(process.execPath, ['-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { WORLD: JSON.stringify(world) },
    })
    expect(await text(outside.stdout)).toBe(`connected connected connected ${marker} true\n`)
    expect([hostFile, hostSocket, hostAbstractSocket, hostPort].every(Boolean)).toBe(true)
  })

  test.each(ATTEMPTS)('it cannot $name', async (attempt) => {
    const { answers, exit, stderr } = await sandbox.attempt([attempt])
    expect(exit, stderr).toEqual({ code: 0, signal: null, cause: 'exit' })
    expect(answers[0]).toMatch(attempt.answer)
  })
})
