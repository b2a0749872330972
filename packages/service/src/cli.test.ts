import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'

/** Runs a program with one command, whose service does not close. */
const run = (...args: string[]) => {
  const script = `import { runCli } from ${JSON.stringify(import.meta.resolve('./cli.ts'))}
    await runCli({
      name: 'test',
      prints: 'json',
      notes: [],
      commands: [{ name: 'secret make', usage: 'secret make', summary: 'a secret', wordCount: 0, run: async () => ({ json: { secret: 's' } }) }],
      loadConfig: () => ({ MIGRATE_ON_START: false }),
      migrate: async () => {},
      compose: async () => ({ deps: {}, close: async () => { throw new Error('it does not close') } }),
    })`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', script, '--', 'cli.ts', ...args],
    { encoding: 'utf8' },
  )
  return { status, stdout, stderr }
}

test('a result is printed before the service is closed, so that a secret shown once is never lost', () => {
  expect(run('secret', 'make')).toEqual({
    status: 1,
    stdout: '{"secret":"s"}\n',
    stderr: 'Cannot start: it does not close\n',
  })
})

test.each([[[]], [['secret']], [['secret', 'make', 'more']], [['secret', 'make', '--none']]])(
  'the wrong call %o gets the help on stderr and exit code 2',
  (args) => {
    expect(run(...args)).toMatchObject({
      status: 2,
      stdout: '',
      stderr: expect.stringContaining('secret make') as string,
    })
  },
)
