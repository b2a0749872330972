/**
 * For calls of an upload, which nobody wants to begin again: the platform may be away for as long as a restart takes, some 80
 * seconds by the mean of the waits.
 */
export const patient = { retries: 20, timeoutMs: 1_200_000 } as const

/** How long a try may take that sends up to 10 MB: 270 kbit/s are enough. */
export const PIECE_MS = 300_000
