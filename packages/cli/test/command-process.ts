import { PassThrough, Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { run } from '../src/run.ts'

// A process that runs command lines as main.ts does, one after the other, without the costs of its start: node command-process.ts.
// Each message is the words of one; it answers `{ code, stderr }`.
process.on('message', (argv: string[]) => {
  void (async () => {
    const stderr = new PassThrough()
    const said = text(stderr)
    const code = await run(argv, {
      // oxlint-disable-next-line node/no-process-env -- the environment of a machine is what the test gives this process
      env: process.env,
      cwd: process.cwd(),
      stdin: Readable.from([]),
      stdout: new Writable({ write: (_chunk, _encoding, done) => done() }),
      stderr,
      signal: new AbortController().signal,
      program: 'platform',
      fetch: (input, init) => fetch(input, init),
      openAddress: () => {},
      firstAnswerMs: 30_000,
    })
    stderr.end()
    process.send?.({ code, stderr: await said })
  })()
})
process.send?.({ code: 0, stderr: 'ready' })
