import { type DestinationStream, type Logger, pino } from 'pino'

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
 * What a log says of an error: class, message, code and stack, down its causes. Nothing else of it, because a driver hangs
 * values on its errors; and nothing at all of drizzle's own, whose message quotes every parameter of the query.
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

/** Lines wait for this much text, or for FLUSH_MS: a write for each would be a tenth of what a request costs. */
const TOGETHER_BYTES = 8_192
const FLUSH_MS = 200
/** Where a reader is so far behind, or a disk full for so long, further lines are lost. */
const WAITING_BYTES_MAX = 16 * 1_048_576

let stdout: DestinationStream | undefined

/** One for the process, so that the lines of all loggers come out in their order. What is left is written at its end. */
function openStdout(): DestinationStream {
  const destination = pino.destination({
    fd: 1,
    sync: false,
    minLength: TOGETHER_BYTES,
    periodicFlush: FLUSH_MS,
    maxLength: WAITING_BYTES_MAX,
  })
  // A log that cannot be written, to a full disk for example, ends no service; pino itself gives up on a broken pipe.
  destination.on('error', () => {
    // At the end of the process it would try again for ever.
    destination.flushSync = () => {}
  })
  return destination
}

/** The time of a line, written out once for all lines of a millisecond. */
let written = { at: 0, text: '' }
function isoTime(): string {
  const at = Date.now()
  if (at !== written.at) written = { at, text: `,"time":"${new Date(at).toISOString()}"` }
  return written.text
}

/** Structured JSON lines on stdout. `level` is one of pino's, or `silent`. An error goes under `err`. */
export function createLogger(service: string, level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: { service },
      timestamp: isoTime,
      serializers: { err: describeError },
      redact: { paths: secret.flatMap((name) => [`["${name}"]`, `*["${name}"]`]), censor: '[redacted]' },
    },
    destination ?? (stdout ??= openStdout()),
  )
}
