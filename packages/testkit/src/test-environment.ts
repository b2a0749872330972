// oxlint-disable-next-line node/no-process-env -- what tests ask of it stands here
const { CI = '', DRILL = '', NODE_COMPILE_CACHE, TMPDIR, ...env } = process.env
const { TEST_FRAMEWORKS, TEST_FRAMEWORKS_SOURCE, TEST_RELEASES, TEST_SEED } = env

/** If true, a test fails instead of being skipped if the machine lacks something, and tests run at full size. */
export const isCi = !['', '0', 'false'].includes(CI)

/** If true, tests also run what CI cannot afford each time, such as every version of a client that the machine has. */
export const isDrill = !['', '0', 'false'].includes(DRILL)

/** For processes that tests start: they use the compile cache, as under the launcher, and the temporary folder of the run. */
export const inheritedEnvironment: Record<string, string> = {
  ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }),
  ...(TMPDIR && { TMPDIR }),
}

/** The folder in which framework fixtures are installed and built, and reused; undefined: they are not tested. */
export const frameworksFolder: string | undefined = TEST_FRAMEWORKS === '' ? undefined : TEST_FRAMEWORKS

/** The folder in which programs of earlier releases are kept; undefined: only the drill starts them, and removes them. */
export const releasesFolder: string | undefined = TEST_RELEASES === '' ? undefined : TEST_RELEASES

/** Whether the platform also builds them from source. */
export const buildsFrameworks = !['', '0', 'false', undefined].includes(TEST_FRAMEWORKS_SOURCE)

/** The seed of what tests choose at random; undefined: another one each time, which a failing test prints. */
export const testSeed: number | undefined = TEST_SEED ? Number(TEST_SEED) : undefined
