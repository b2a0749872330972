const NANOS_PER_MICRO = 1_000n

/** Converts nano-USD to millionths of a US dollar, rounded up: nothing with a price becomes free. */
export const microsOf = (nanos: bigint): number => Number((nanos + NANOS_PER_MICRO - 1n) / NANOS_PER_MICRO)
