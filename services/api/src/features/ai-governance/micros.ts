const NANOS_PER_MICRO = 1_000n

/** Nano-USD as millionths of a US dollar, rounded up: what has a price is never free. */
export const microsOf = (nanos: bigint): number => Number((nanos + NANOS_PER_MICRO - 1n) / NANOS_PER_MICRO)
