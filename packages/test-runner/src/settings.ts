import { fileURLToPath } from 'node:url'
import type { TestUserConfig } from 'vitest/node'
import { testFilesWithoutEngines } from './engines.ts'
import { keptWorker } from './kept-worker.ts'
import { readTestRun } from './test-run.ts'

/**
 * The settings that all packages share, for `test` of a vitest configuration.
 *
 * Patience, not a bound: a machine that is busy with other suites takes many times as long, and a test that waits for an event ends
 * with the event. So a test has a limit of its own only where it needs more than this. In the run of what an engine can change, files
 * without a line of engines are left out.
 */
export function testSettings({ setupFiles = [], ...more }: TestUserConfig = {}): TestUserConfig {
  const { scope, isWhole, isWatched } = readTestRun()
  const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
  return {
    // Half the CPU of a run: files share what was imported and compiled, and with it what modules keep, such as metrics.
    isolate: false,
    hookTimeout: 300_000,
    testTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    setupFiles: [here('./measure-cpu.ts'), ...[setupFiles].flat()],
    reporters: [isWhole ? 'minimal' : 'default', here('./report-tests.ts')],
    include: ['**/*.test.ts'],
    exclude: ['**/node_modules/**', ...(scope === 'engines' ? testFilesWithoutEngines(process.cwd()) : [])],
    ...more,
    ...(isWatched && { pool: keptWorker, maxWorkers: 1 }),
  }
}
