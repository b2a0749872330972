/** A process that owns a runtime, for tests to kill. Arguments: the mode of the sandbox, and a folder. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openSandbox, type SandboxMode } from '@platform/sandbox/open-sandbox'
import type { FunctionSource } from '../src/function-runtime.ts'
import { openFunctionRuntime } from '../src/open-function-runtime.ts'

const [mode, folder] = process.argv.slice(2) as [SandboxMode, string]
const sandbox = await openSandbox({ folder: join(folder, 'x'), mode, egress: mode === 'none' ? 'host' : 'none' })
const pids: number[] = []
const start = sandbox.start.bind(sandbox)
sandbox.start = async (command) => {
  const started = await start(command)
  pids.push(started.pid)
  return started
}
const runtime = await openFunctionRuntime({
  sandbox,
  folder: join(folder, 'r'),
  logger: { error: console.error },
  onLog: ({ message }) => console.error(message),
})
await mkdir(join(folder, 'f'))
await mkdir(join(folder, 'p'))
await writeFile(
  join(folder, 'f', 'index.mjs'),
  `import { spawn } from 'node:child_process'
  spawn('sleep', ['1000'], { stdio: 'ignore' })
  export default (req, res) => { res.end('begun'); if (req.url === '/loop') setTimeout(() => { for (;;) {} }) }`,
)
for (const path of ['/', '/loop']) {
  const source: FunctionSource = {
    functionId: `function-${path.length}`,
    deploymentId: 'deployment',
    name: 'index',
    kind: 'handler',
    folder: join(folder, 'f'),
    handler: 'index.mjs',
    command: undefined,
    isWeb: false,
    hasHelpers: false,
    variables: {},
    platformFolder: join(folder, 'p'),
    builtAt: 0,
    memoryMb: 256,
    slotsMax: 1,
  }
  const lease = await runtime.acquire(source.functionId, async () => source)
  const answer = await lease.dispatcher.request({ origin: 'http://slot', path, method: 'GET' })
  await answer.body.dump()
}
console.log(JSON.stringify(pids))
setInterval(() => {}, 1_000)
