import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'

test('a program that failed ends its process, whatever it has left open', () => {
  const script = `import { runProcess } from ${JSON.stringify(import.meta.resolve('./run-process.ts'))}
    await runProcess(async ({ words, stdout, stderr }) => {
      setInterval(() => {}, 1_000)
      stdout.write(words.join(' '))
      stderr.write('it failed')
      return 1
    })`
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', script, '--', 'program.ts', 'secret', 'make'],
    { encoding: 'utf8', timeout: 20_000 },
  )
  expect({ status, signal, stdout, stderr }).toEqual({
    status: 1,
    signal: null,
    stdout: 'secret make',
    stderr: 'it failed',
  })
})
