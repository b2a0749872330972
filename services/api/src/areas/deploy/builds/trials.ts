import type { FunctionLogLine } from '@platform/function-runtime/function-runtime'

/** A line that a Function printed. */
export type PrintedLine = Pick<FunctionLogLine, 'level' | 'message'>
