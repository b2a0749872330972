import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findLimitObstacle, runLimited } from '@platform/sandbox/limited-program'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, describe, expect, test } from 'vitest'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'unshare', 'mount']) ?? findLimitObstacle()

describe('in a container with a limit of memory', unless(obstacle), () => {
  // Short, since sockets are below it.
  const folder = mkdtempSync('/var/tmp/crowded-')
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test('a Function that holds most when the container is nearly full runs out of memory, and the others answer', async () => {
    for (const name of ['files', 'p']) mkdirSync(join(folder, name), { mode: 0o755 })
    writeFileSync(
      join(folder, 'files/index.mjs'),
      `const kept = []; export default (req, res) => { if (req.url !== '/') kept.push(Buffer.alloc(6 << 20, 1)); res.end('fine') }`,
    )
    const code = `
      import { chmodSync } from 'node:fs'
      import { setTimeout as sleep } from 'node:timers/promises'
      import { openSandbox } from ${JSON.stringify(import.meta.resolve('@platform/sandbox/open-sandbox'))}
      import { openFunctionRuntime } from ${JSON.stringify(import.meta.resolve('./open-function-runtime.ts'))}
      const folder = ${JSON.stringify(folder)}
      chmodSync(folder, 0o711)
      const sandbox = await openSandbox({ folder: folder + '/s', mode: 'required', egress: 'none' })
      const lines = []
      const runtime = await openFunctionRuntime({ sandbox, folder: folder + '/r', logger: { error: console.error }, onLog: (line) => lines.push(line) })
      const source = (functionId) => ({
        functionId, deploymentId: functionId, name: 'index', kind: 'handler', folder: folder + '/files', handler: 'index.mjs', command: undefined,
        isWeb: false, hasHelpers: false, variables: {}, platformFolder: folder + '/p', builtAt: 0, memoryMb: 512, slotsMax: 1,
      })
      const ask = async (functionId, path) => {
        const lease = await runtime.acquire(functionId, async () => source(functionId))
        try {
          const answer = await lease.dispatcher.request({ origin: 'http://slot', method: 'GET', path })
          return await answer.body.text()
        } catch {
          return await lease.failure()
        } finally { lease.release() }
      }
      await ask('calm', '/')
      let answer = 'fine'
      while (answer === 'fine') { answer = await ask('greedy', '/more'); await sleep(50) }
      console.log(JSON.stringify({ code: answer?.code, line: lines.at(-1)?.message, calm: await ask('calm', '/') }))
      await runtime.close(0)
      await sandbox.close()`
    expect(JSON.parse(await runLimited(400 * 2 ** 20, code))).toEqual({
      code: 'function_out_of_memory',
      line: 'Stopped: it held most memory when the platform had hardly any left: keep less in memory at a time.',
      calm: 'fine',
    })
  })
})
