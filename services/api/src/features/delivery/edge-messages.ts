import type { HeaderPairs } from '@platform/build-output/router'
import { Unavailable } from '@platform/errors/api-error'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import { z } from 'zod'
import { ClientSilent } from './call-function.ts'

/** Where an edge asks another for a slot. */
export const LEASES_PATH = '/leases'
/** The HMAC of the body, and of an answer with what it answers, by which edges know each other. */
export const SIGNATURE_HEADER = 'x-platform-signature'
/** Names the slot that a request was promised. An authority of its own: log it nowhere. */
export const LEASE_HEADER = 'x-platform-lease'
/** What went wrong, in place of an answer of the Function. */
export const FAILURE_HEADER = 'x-platform-failure'
/** How long a signed message is good for: clocks of edges may differ by as much. */
export const MESSAGE_MS = 60_000

/** Asks for the slot of a pin. */
export const leaseRequest = z.object({
  /** The edge that is asked: a process that took another's address must not answer for it. */
  edgeId: z.uuid(),
  sentAt: z.number(),
  deploymentId: z.uuid(),
  /** Of the Function. */
  path: z.string(),
  /** base64url. */
  keyHash: z.string(),
  /** Milliseconds since the epoch. */
  expiresAt: z.number(),
})

export type LeaseRequest = z.input<typeof leaseRequest>

/** Answers with a slot that is held for one request. */
export const leaseAnswer = z.object({
  lease: z.string(),
  slot: z.number().int(),
  instance: z.string(),
  isRestarted: z.boolean(),
})
export type LeaseAnswer = z.output<typeof leaseAnswer>

/** Where an edge is given the run of a cron. It answers 202 once it has taken the run, and ends its answer with the run. */
export const CRON_RUNS_PATH = '/cron-runs'

export const cronRunRequest = z.object({
  /** The edge that is asked. */
  edgeId: z.uuid(),
  sentAt: z.number(),
  runId: z.uuid(),
})
export type CronRunRequest = z.input<typeof cronRunRequest>

/** What an answer's signature is over: it is good for nothing but what was asked. */
export const signedAnswer = (request: string, answer: string): string => `${request}\n${answer}`

const codes = ['function_crashed', 'function_overloaded', 'function_timeout', 'function_out_of_memory'] as const

/** A failure as a header's value: its code alone, since its message may hold what a Function said, which fits no header. */
export const writeFailure = (error: Error): string =>
  error instanceof FunctionFailure ? error.code : error instanceof ClientSilent ? 'client_silent' : 'edge_failed'

/** The failure that an edge's answer tells of; undefined: it is a Function's answer. */
export function readFailure(headers: HeaderPairs): Error | undefined {
  const name = headers.find(([each]) => each === FAILURE_HEADER)?.[1]
  if (name === undefined) return undefined
  if (name === 'client_silent') return new ClientSilent()
  const code = codes.find((each) => each === name)
  return code
    ? new FunctionFailure(code, 'The log of the edge that has its slot says why.')
    : new Unavailable('The edge that has the slot failed')
}
