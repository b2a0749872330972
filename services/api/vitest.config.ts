import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that measure time or memory, or kill and stop processes. They run one after another, once all others are done: beside
 * them a machine is no busier than with one worker.
 */
const alone = [
  'src/features/ai-gateway/floods.test.ts',
  'src/features/builds/outages.test.ts',
  'src/features/delivery/function-memory.test.ts',
  'src/features/delivery/site-directory.test.ts',
  'src/features/images/slow-images.test.ts',
  'test/*crash.test.ts',
  'test/*memory.test.ts',
  'test/*outages.test.ts',
  'test/cut-over.test.ts',
  'test/deploys-under-load.test.ts',
  'test/process.test.ts',
  'test/rolling-restart.test.ts',
]

/**
 * Files that say the same whatever Postgres, Redis and object store there are, since they ask none, cut the connection to one, or
 * bring their own: the second run of CI leaves them out.
 */
const sameOnAnyEngine = [
  'src/features/ai-gateway/database-away.test.ts',
  'src/features/ai-gateway/floods.test.ts',
  'src/features/ai-gateway/hostile-*.test.ts',
  'src/features/ai-gateway/isolation.test.ts',
  'src/features/ai-gateway/long-calls.test.ts',
  'src/features/ai-gateway/providers/**/*.test.ts',
  'src/features/builds/outages.test.ts',
  'src/features/delivery/site-directory.test.ts',
  'src/features/images/remote-sources.test.ts',
  'src/features/images/slow-images.test.ts',
  'test/ai-client*.test.ts',
  'test/ai-export-memory.test.ts',
  'test/cli.test.ts',
  'test/conventions.test.ts',
  'test/document*.test.ts',
  'test/edges-crash.test.ts',
  'test/every-endpoint.test.ts',
  'test/fuzz.test.ts',
  'test/generated-clients.test.ts',
  'test/outages.test.ts',
  'test/pins-outages.test.ts',
]
// oxlint-disable-next-line node/no-process-env -- a choice of the run, not of a test
const leftOut = process.env['TEST_SCOPE'] === 'engines' ? sameOnAnyEngine : []

const long = ['/test/migrations.test.ts', '/builds/source-builds.test.ts']

/** As vitest orders files, by size, but for those that take far longer than their size says: at the end a worker would wait for them. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification) => long.some((name) => moduleId.endsWith(name))
    return [...sorted.filter((file) => isLong(file)), ...sorted.filter((file) => !isLong(file))]
  }
}

const shared = {
  // Half the CPU of a run: files share what was imported and compiled, and with it what modules keep, such as metrics.
  isolate: false,
  hookTimeout: 60_000,
  testTimeout: 30_000,
  // Patience, not a bound: a machine that is busy with other suites needs more than the second that is the default.
  expect: { poll: { timeout: 10_000 } },
}

export default defineConfig({
  test: {
    globalSetup: ['@platform/testkit/global-setup'],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...shared,
          name: 'together',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...alone, ...leftOut],
          // Most files wait more than they work: two of them leave half of two cores idle.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: 'alone',
          include: alone,
          exclude: leftOut,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
