import { testSettings } from '@platform/test-runner/settings'
import { frameworksFolder } from '@platform/testkit/test-environment'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that measure time or memory, kill and stop processes, or keep a machine busy for minutes. They run one after another, once all
 * others are done: beside them a machine is no busier than with one worker.
 */
export const alone = [
  'src/areas/ai/gateway/floods.test.ts',
  'src/areas/deploy/builds/outages.test.ts',
  'src/areas/edge/delivery/function-memory.test.ts',
  'src/areas/edge/delivery/site-directory.test.ts',
  'src/areas/edge/images/slow-images.test.ts',
  'test/*crash.test.ts',
  'test/*memory.test.ts',
  'test/*outages.test.ts',
  'test/cut-over.test.ts',
  'test/deploys-under-load.test.ts',
  'test/frameworks-starters.test.ts',
  'test/process.test.ts',
  'test/rolling-restart.test.ts',
  'test/rolling-upgrade.test.ts',
]

export const long = ['/test/migrations.test.ts', '/builds/source-builds.test.ts']

/** As vitest orders files, by size, but for those that take far longer than their size says: at the end a worker would wait for them. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification) => long.some((name) => moduleId.endsWith(name))
    return [...sorted.filter((file) => isLong(file)), ...sorted.filter((file) => !isLong(file))]
  }
}

const {
  include = [],
  exclude = [],
  ...settings
} = testSettings({
  setupFiles: ['@platform/testkit/record-statements', '@platform/testkit/replace-metrics'],
})
/** Sites of frameworks take minutes of npm and bundlers: they are tests of a run that names a folder for them. */
const frameworks = frameworksFolder === undefined ? ['test/frameworks-*.test.ts'] : []

export default defineConfig({
  test: {
    ...settings,
    globalSetup: ['@platform/testkit/global-setup'],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...settings,
          name: 'together',
          include,
          exclude: [...exclude, ...alone, ...frameworks],
          // Most files wait more than they work: two of them leave half of two cores idle.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...settings,
          name: 'alone',
          include: alone,
          exclude: [...exclude, ...frameworks],
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
