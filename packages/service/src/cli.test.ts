import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { runCli } from './cli.ts'
import type { Call } from './run-process.ts'

/** What was printed, where and in order. */
type Printed = ['stdout' | 'stderr', string][]

/** Runs a program with one command, whose service does not close. */
const run = async (words: string[]) => {
  const printed: Printed = []
  const sink = (name: 'stdout' | 'stderr'): Call['stdout'] => ({ write: (text) => void printed.push([name, text]) })
  const status = await runCli(
    {
      name: 'test',
      prints: 'json',
      notes: [],
      commands: [
        {
          name: 'secret make',
          usage: 'secret make',
          summary: 'a secret',
          wordCount: 0,
          run: async () => ({ json: { secret: 's' } }),
        },
      ],
      loadConfig: () => ({ MIGRATE_ON_START: false }),
      prepareDatabase: async () => {},
      compose: async () => ({
        deps: {},
        async close() {
          throw new Error('it does not close')
        },
      }),
    },
    { words, env: {}, stdin: Readable.from([]), stdout: sink('stdout'), stderr: sink('stderr') },
  )
  return { status, printed }
}

test('a result is printed before the service is closed, so that a secret shown once is never lost', async () => {
  const printed = await run(['secret', 'make'])
  expect(printed).toEqual({
    status: 1,
    printed: [
      ['stdout', '{"secret":"s"}\n'],
      ['stderr', 'Cannot start: it does not close\n'],
    ],
  })
})

test.each([[[]], [['secret']], [['secret', 'make', 'more']], [['secret', 'make', '--none']]])(
  'the wrong call %o gets the help on stderr and exit code 2',
  async (args) => {
    expect(await run(args)).toEqual({ status: 2, printed: [['stderr', expect.stringContaining('secret make')]] })
  },
)
