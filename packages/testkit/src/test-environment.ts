// oxlint-disable-next-line node/no-process-env -- what tests ask of it stands here
const { CI = '', NODE_COMPILE_CACHE } = process.env

/** True where what a machine lacks fails a test instead of skipping it, and where tests are as large as they get. */
export const isCi = !['', '0', 'false'].includes(CI)

/** For a process that a test starts: it takes modules that were compiled before, as under the launcher. */
export const compileCache: Record<string, string> = NODE_COMPILE_CACHE ? { NODE_COMPILE_CACHE } : {}
