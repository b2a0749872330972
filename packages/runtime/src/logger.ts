import { type DestinationStream, type Logger, pino } from 'pino'
import { bufferedStdout } from './buffered-stdout.ts'

export type { Logger }

/** Members that never reach a log, at the top or one level down. */
const secret = ['authorization', 'cookie', 'set-cookie', 'secret', 'password', 'token', 'client_secret', 'value']

interface LoggedError {
  type: string
  message: string
  code?: string
  stack?: string
  cause?: LoggedError
}

/**
 * Describes an error for the log: class, message, code and stack, down its causes. Other members are left out, because drivers
 * attach values to their errors, and drizzle's own errors are skipped, because their message quotes every query parameter.
 */
export function describeError(error: unknown): LoggedError | undefined {
  if (!(error instanceof Error))
    return error === undefined ? undefined : { type: typeof error, message: 'not an Error' }
  const cause = describeError(error.cause)
  if (error.constructor.name === 'DrizzleQueryError')
    return cause ?? { type: 'DrizzleQueryError', message: 'query failed' }
  const { code } = error as { code?: unknown }
  return {
    type: error.constructor.name,
    message: error.message,
    ...(typeof code === 'string' && { code }),
    ...(error.stack !== undefined && { stack: error.stack }),
    ...(cause && { cause }),
  }
}

/** The formatted time of the latest line, reused for all lines of the same millisecond. */
let written = { at: 0, text: '' }
function isoTime(): string {
  const nowMs = Date.now()
  if (nowMs !== written.at) written = { at: nowMs, text: `,"time":"${new Date(nowMs).toISOString()}"` }
  return written.text
}

/** Creates a logger of structured JSON lines on stdout. `level` is one of pino's, or `silent`. Pass an error as `err`. */
export function createLogger(service: string, level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: { service },
      timestamp: isoTime,
      serializers: { err: describeError },
      redact: { paths: secret.flatMap((name) => [`["${name}"]`, `*["${name}"]`]), censor: '[redacted]' },
    },
    destination ?? bufferedStdout(),
  )
}
