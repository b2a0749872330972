import type { HeaderPairs } from '@platform/build-output/router'
import { Unavailable } from '@platform/errors/api-error'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import { z } from 'zod'
import { ClientSilent } from './call-function.ts'

/** Path at which an edge asks another for a slot. */
export const LEASES_PATH = '/leases'
/** The HMAC of the body, and of an answer together with its request, by which edges authenticate each other. */
export const SIGNATURE_HEADER = 'x-platform-signature'
/** Names the slot promised to a request. It is a credential: never log it. */
export const LEASE_HEADER = 'x-platform-lease'
/** The error, in place of a Function's answer. */
export const FAILURE_HEADER = 'x-platform-failure'
/** How long a signed message is valid: the clocks of edges may differ by this much. */
export const MESSAGE_MS = 60_000

/** Asks for the slot of a pin. */
export const leaseRequest = z.object({
  /** The addressed edge: a process that took over another's address must not answer for it. */
  edgeId: z.uuid(),
  sentAt: z.number(),
  deploymentId: z.uuid(),
  /** Path of the Function. */
  path: z.string(),
  /** base64url. */
  keyHash: z.string(),
  /** Milliseconds since the epoch. */
  expiresAt: z.number(),
})

export type LeaseRequest = z.input<typeof leaseRequest>

/** A slot that is held for one request. */
export const leaseAnswer = z.object({
  lease: z.string(),
  slot: z.number().int(),
  instance: z.string(),
  isRestarted: z.boolean(),
})
export type LeaseAnswer = z.output<typeof leaseAnswer>

/**
 * Path at which an edge receives runs of crons. It answers 202 once it has accepted the run, and ends its answer when the run
 * ends.
 */
export const CRON_RUNS_PATH = '/cron-runs'

export const cronRunRequest = z.object({
  /** The addressed edge. */
  edgeId: z.uuid(),
  sentAt: z.number(),
  runId: z.uuid(),
})
export type CronRunRequest = z.input<typeof cronRunRequest>

/** The text that an answer's signature covers: it is valid only for the request that it answers. */
export const signedAnswer = (request: string, answer: string): string => `${request}\n${answer}`

const codes = ['function_crashed', 'function_overloaded', 'function_timeout', 'function_out_of_memory'] as const

/** A failure as a header value: only its code, since its message may quote the Function, which no header can hold. */
export const writeFailure = (error: Error): string =>
  error instanceof FunctionFailure ? error.code : error instanceof ClientSilent ? 'client_silent' : 'edge_failed'

/** The failure in an edge's answer; undefined if it is a Function's answer. */
export function readFailure(headers: HeaderPairs): Error | undefined {
  const name = headers.find(([each]) => each === FAILURE_HEADER)?.[1]
  if (name === undefined) return undefined
  if (name === 'client_silent') return new ClientSilent()
  const code = codes.find((each) => each === name)
  return code
    ? new FunctionFailure(code, 'The log of the edge that has its slot says why.')
    : new Unavailable('The edge that has the slot failed')
}
