import type { Signer } from '@platform/runtime/seal'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'
import { openEdgeWatch } from '../edges/watch-edges.ts'
import type { StickyPin } from '../sticky-sessions/sticky-token.ts'
import type { DeployedFunction } from './deployed-site.ts'
import {
  FAILURE_HEADER,
  LEASE_HEADER,
  leaseAnswer,
  LEASES_PATH,
  type LeaseRequest,
  readFailure,
  signedAnswer,
  SIGNATURE_HEADER,
} from './edge-messages.ts'
import type { FunctionLease } from './function-lease.ts'

const CONNECT_MS = 1_000
/** A slot may take 10 s to start. */
const LEASE_MS = 12_000
const EDGES_MAX = 1_000
/** Behind what the other edge itself waits for. */
const GRACE_MS = 5_000

/** Whoever asks for a slot loses nothing when it asks elsewhere; a request that is cut off may be lost. */
const HUNG_LOOKS = { asked: 1, sent: 4 }

/** Nobody answers at the address of an edge, or not as that edge. Where no slot was promised yet, nothing was sent of the request. */
export class EdgeUnreachable extends Error {}

/** The edges beside this one. */
export interface OtherEdges {
  /**
   * The slot that a pin has on another edge. undefined: the pin is not that edge's. Throws EdgeUnreachable, and FunctionFailure where
   * the slot cannot be had.
   */
  acquire(
    edge: { edgeId: string; internalUrl: string },
    fn: Pick<DeployedFunction, 'path' | 'deploymentId'>,
    pin: StickyPin,
  ): Promise<FunctionLease | undefined>
  close(): Promise<void>
}

/** Asks other edges through their internal listeners. A request goes to a slot in two steps, since a body can be sent but once. */
export function openOtherEdges({
  db,
  logger,
  signer,
  now,
}: {
  db: Db
  logger: Logger
  signer: Signer
  now: () => Date
}): OtherEdges {
  const watch = openEdgeWatch({ db, logger })
  const pools = new LRUCache<string, Pool>({
    max: EDGES_MAX,
    dispose: (pool) => void pool.close().catch(() => {}),
  })
  function poolOf(internalUrl: string): Pool {
    let pool = pools.get(internalUrl)
    if (!pool) {
      pool = new Pool(internalUrl, { connections: null, pipelining: 1, connect: { timeout: CONNECT_MS } })
      pools.set(internalUrl, pool)
    }
    return pool
  }

  async function ask(pool: Pool, edgeId: string, message: string) {
    const hung = new AbortController()
    const stopWaiting = watch.whileWaitingFor(edgeId, HUNG_LOOKS.asked, () => hung.abort())
    try {
      const answer = await pool.request({
        method: 'POST',
        path: LEASES_PATH,
        headers: { 'content-type': 'application/json', [SIGNATURE_HEADER]: signer.sign(message) },
        body: message,
        signal: hung.signal,
        headersTimeout: LEASE_MS,
        bodyTimeout: LEASE_MS,
      })
      return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
    } catch (error) {
      throw new EdgeUnreachable('The edge that has a pin does not answer', { cause: error })
    } finally {
      stopWaiting()
    }
  }

  return {
    async acquire({ edgeId, internalUrl }, fn, { keyHash, expiresAt }) {
      const pool = poolOf(internalUrl)
      const message = JSON.stringify({
        edgeId,
        sentAt: now().getTime(),
        deploymentId: fn.deploymentId,
        path: fn.path,
        keyHash: keyHash.toString('base64url'),
        expiresAt: expiresAt.getTime(),
      } satisfies LeaseRequest)
      const { status, headers, text } = await ask(pool, edgeId, message)
      if (status === 421) return undefined
      const failure = headers[FAILURE_HEADER]
      if (typeof failure === 'string') throw readFailure([[FAILURE_HEADER, failure]]) ?? new Error(failure)
      if (status !== 201) throw new EdgeUnreachable(`The edge that has a pin answered ${status}`)
      // A process that took the address of an edge that was killed would be sent visitors' cookies.
      const signature = headers[SIGNATURE_HEADER]
      if (typeof signature !== 'string' || !signer.verify(signedAnswer(message, text), signature))
        throw new EdgeUnreachable('Whoever answers for the edge that has a pin is no edge')
      const { lease, slot, instance, isRestarted } = leaseAnswer.parse(JSON.parse(text))
      const { hostname, port } = new URL(internalUrl)
      return {
        slot,
        instance,
        dispatcher: pool,
        // Brackets are how URLs write IPv6, and no part of the address.
        connection: { host: hostname.replaceAll(/^\[|\]$/g, ''), port: Number(port || 80) },
        headers: { [LEASE_HEADER]: lease, ...(isRestarted && { 'x-sticky-restarted': '1' }) },
        graceMs: GRACE_MS,
        isRemote: true,
        whileWaiting: (onHung) =>
          watch.whileWaitingFor(edgeId, HUNG_LOOKS.sent, () =>
            onHung(new EdgeUnreachable('The edge that has a pin hangs')),
          ),
        failureIn: readFailure,
        // What it says of its end is in the log of the edge that has it.
        failure: async () => undefined,
        // The other edge counts, and gives the slot back once its answer is over.
        countAsStream() {},
        release() {},
      }
    },
    async close() {
      watch.close()
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
    },
  }
}
