import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { locateTestFile, repository } from './workspace.ts'

// `npm run test:watch -- FILE`: runs a test file again with each change of what it imports. vitest, its Postgres and the migrated
// templates stay.

const [path, ...more] = process.argv.slice(2)
const located = path === undefined ? undefined : locateTestFile(path)
if (located === undefined) {
  process.stderr.write(
    `${path ?? 'Nothing'} is not a test file: npm run test:watch -- services/api/test/conventions.test.ts\n`,
  )
  process.exitCode = 2
} else {
  const folder = join(repository, located.folder)
  const vitest = spawn(join(folder, 'node_modules/.bin/vitest'), ['watch', located.file, ...more], {
    cwd: folder,
    // oxlint-disable-next-line node/no-process-env -- the command's own environment
    env: { ...process.env, TEST_RUN: 'watch' },
    stdio: 'inherit',
  })
  // vitest ends itself on Ctrl-C, and its servers.
  process.on('SIGINT', () => {})
  const [code] = (await once(vitest, 'exit')) as [number | null]
  process.exitCode = code ?? 1
}
