import type { Logger } from '@platform/runtime/logger'

const HARD_LIMIT_MS = 40_000

/**
 * Shuts the process down in order on SIGTERM and SIGINT, and, if a launcher started it with a pipe on stdin and
 * PLATFORM_PARENT_PIPE=1, when that pipe closes, so that the process does not outlive a launcher that was killed. A second
 * signal, or 40 s, ends it at once.
 */
export function onShutdown(logger: Logger, stop: () => Promise<void>, withParent: boolean): void {
  let stopping = false
  const end = (why: string) => {
    if (stopping) process.exit(1)
    stopping = true
    logger.info({ why }, 'stopping')
    setTimeout(() => process.exit(1), HARD_LIMIT_MS).unref()
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        logger.error({ err: error }, 'stopped with an error')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', () => end('SIGTERM'))
  process.on('SIGINT', () => end('SIGINT'))
  if (!withParent) return
  // The launcher reads both; without it a warning must not end what is still being finished.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  process.stdin
    .on('end', () => end('parent gone'))
    .on('error', () => end('parent gone'))
    .resume()
}
