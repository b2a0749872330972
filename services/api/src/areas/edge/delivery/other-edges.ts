import { entriesMax } from '@platform/runtime/entries-max'
import type { Signer } from '@platform/runtime/seal'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { LRUCache } from 'lru-cache'
import type { Pool } from 'undici'
import { openEdgeWatch } from '../../cluster/edges/watch-edges.ts'
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
/** A slot may need 10 s to start. */
const LEASE_MS = 12_000
const EDGES_MAX = 1_000
/** Added to the other edge's own timeouts. */
const GRACE_MS = 5_000

/** Asking elsewhere for a slot loses nothing; cutting off a request may lose it. */
const HUNG_LOOKS = { asked: 1, sent: 4 }

/** Nobody answers at an edge's address, or another process does. If no slot was promised yet, nothing of the request was sent. */
export class EdgeUnreachable extends Error {}

/** Access to the slots of other edges. */
export interface OtherEdges {
  /**
   * Leases the slot of a pin on another edge. Resolves to undefined if that edge does not own the pin. Throws EdgeUnreachable,
   * and FunctionFailure if the slot cannot be leased.
   */
  acquire(
    edge: { edgeId: string; internalUrl: string },
    fn: Pick<DeployedFunction, 'path' | 'deploymentId'>,
    pin: StickyPin,
  ): Promise<FunctionLease | undefined>
  close(): Promise<void>
}

/**
 * Calls other edges through their internal listeners. A request reaches a slot in two steps, since its body can be sent only
 * once.
 */
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
    ...entriesMax(EDGES_MAX),
    dispose: (pool) => void pool.close().catch(() => {}),
  })
  async function poolOf(internalUrl: string): Promise<Pool> {
    const undici = await import('undici') // most processes never ask another edge
    let pool = pools.get(internalUrl)
    if (!pool) {
      pool = new undici.Pool(internalUrl, { connections: null, pipelining: 1, connect: { timeout: CONNECT_MS } })
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
      const pool = await poolOf(internalUrl)
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
      // Otherwise a process that took over a killed edge's address would receive visitors' cookies.
      const signature = headers[SIGNATURE_HEADER]
      if (typeof signature !== 'string' || !signer.verify(signedAnswer(message, text), signature))
        throw new EdgeUnreachable('Whoever answers for the edge that has a pin is no edge')
      const { lease, slot, instance, isRestarted } = leaseAnswer.parse(JSON.parse(text))
      const { hostname, port } = new URL(internalUrl)
      return {
        slot,
        instance,
        dispatcher: pool,
        // URLs write IPv6 addresses in brackets, which are not part of the address.
        connection: { host: hostname.replaceAll(/^\[|\]$/g, ''), port: Number(port || 80) },
        headers: { [LEASE_HEADER]: lease, ...(isRestarted && { 'x-sticky-restarted': '1' }) },
        graceMs: GRACE_MS,
        isRemote: true,
        whileWaiting: (onHung) =>
          watch.whileWaitingFor(edgeId, HUNG_LOOKS.sent, () =>
            onHung(new EdgeUnreachable('The edge that has a pin hangs')),
          ),
        failureIn: readFailure,
        // The edge that has the slot logs how it ended.
        failure: async () => undefined,
        // The other edge counts, and releases the slot once its answer is over.
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
