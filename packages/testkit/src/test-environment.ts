// oxlint-disable-next-line node/no-process-env -- what tests ask of it stands here
const { CI = '', NODE_COMPILE_CACHE, TEST_FRAMEWORKS, TEST_FRAMEWORKS_SOURCE } = process.env

/** True where what a machine lacks fails a test instead of skipping it, and where tests are as large as they get. */
export const isCi = !['', '0', 'false'].includes(CI)

/** For a process that a test starts: it takes modules that were compiled before, as under the launcher. */
export const compileCache: Record<string, string> = NODE_COMPILE_CACHE ? { NODE_COMPILE_CACHE } : {}

/** The folder in which fixtures of frameworks are installed and built; undefined: they are not tried. What is there is used again. */
export const frameworksFolder: string | undefined = TEST_FRAMEWORKS === '' ? undefined : TEST_FRAMEWORKS

/** Whether the platform builds them from source too. */
export const buildsFrameworks = !['', '0', 'false', undefined].includes(TEST_FRAMEWORKS_SOURCE)
