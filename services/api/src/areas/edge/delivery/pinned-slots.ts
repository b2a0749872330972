import { setTimeout as sleep } from 'node:timers/promises'
import { Unavailable } from '@platform/errors/api-error'
import { withDeadline } from '@platform/runtime/deadline'
import { entriesMax } from '@platform/runtime/entries-max'
import { LRUCache } from 'lru-cache'
import type { EdgeDeps } from '../deps.ts'
import { choosePinnedSlot, type OwnedPin, takePin } from '../sticky-sessions/pins.ts'
import type { StickyPin } from '../sticky-sessions/sticky-token.ts'
import { EdgeUnreachable, type OtherEdges } from './other-edges.ts'
import type { DeployedFunction } from './deployed-site.ts'
import type { FunctionLease } from './function-lease.ts'

const KEPT_MAX = 100_000
/** A killed edge can be replaced after 6 s; requests wait for that. */
const PATIENCE_MS = 15_000
const AGAIN_MS = 250
/** How long the database may take to say who owns a pin that was last this edge's. */
const DATABASE_MS = 1_000
/** After this time it is asked again. */
const GUESS_MS = 2_000

/** Where the requests of a pin go. */
type Place =
  | {
      kind: 'own'
      /** The term of this edge's lease within which this is certain. */
      term: number | undefined
      /** By performance.now(): until then the last known state is assumed, since the database is unavailable. */
      guessedUntil: number
      slot: number
      instance: string
      expiresAt: Date
    }
  | { kind: 'other'; edgeId: string; internalUrl: string }

type Fn = Pick<DeployedFunction, 'id' | 'deploymentId' | 'path'>

interface Settled {
  /** The slot runs in another process than the one that answered before. */
  isRestarted: boolean
  /** A lease of this edge, for the first caller. */
  lease?: FunctionLease
}

/** The slots that sticky URLs select. */
export interface PinnedSlots {
  /**
   * Leases the one slot of a Function that answers a pin, wherever it runs. The pin's first request chooses one here. Throws
   * FunctionFailure, and Unavailable if the edge that owns the pin does not answer but keeps it, or the database is unavailable.
   */
  acquire(fn: Fn, pin: StickyPin): Promise<FunctionLease>
  /** The same for another edge that believes this one to be the owner. Resolves to undefined if it is not. */
  acquireOwn(fn: Fn, pin: StickyPin): Promise<FunctionLease | undefined>
}

type PinnedDeps = Pick<EdgeDeps, 'db' | 'now' | 'logger' | 'functions' | 'membership'>

/**
 * Each pin is a row and belongs to one edge. The owner reads the row once and caches the pin until its lease ends. Other edges
 * cache the owner; an edge that no longer owns a pin says so when asked.
 */
export function openPinnedSlots(deps: PinnedDeps, others: OtherEdges): PinnedSlots {
  const { db, now, logger, functions, membership } = deps
  const places = new LRUCache<string, Place>({ ...entriesMax(KEPT_MAX) })
  const settling = new Map<string, Promise<Settled>>()

  const keyOf = (fn: Fn, { keyHash }: StickyPin): string => `${fn.id}${keyHash.toString('base64url')}`

  const acquireHere = (fn: Fn, slot: number | undefined, expiresAt: Date) =>
    functions.acquire(fn.deploymentId, fn.id, { slot, forMs: expiresAt.getTime() - now().getTime() })

  /** Assumes a pin's last known state: refusing would turn each database outage into an outage of all sticky URLs. */
  function asBefore(before: Place | undefined, pin: StickyPin, error: unknown): OwnedPin {
    if (before?.kind !== 'own') throw new Unavailable('The database does not say which edge has a pin', error)
    logger.warn({ err: error }, 'a pin is taken for what it was')
    return { ...before, edgeId: membership.id, internalUrl: null, expiresAt: pin.expiresAt }
  }

  /** Determines who owns a pin and, if this edge does, its slot. */
  async function settle(fn: Fn, pin: StickyPin, key: string): Promise<Settled> {
    const id = { functionId: fn.id, keyHash: pin.keyHash }
    const before = places.get(key)
    const term = membership.term()
    const late = () => new Error('The database does not answer')
    let guessedUntil = 0
    const taking = takePin(db, membership.id, id, pin.expiresAt)
    const owned = await (before?.kind === 'own' ? withDeadline(DATABASE_MS, late, taking) : taking).catch(
      (error: unknown) => {
        guessedUntil = performance.now() + GUESS_MS
        return asBefore(before, pin, error)
      },
    )
    if (owned.edgeId !== membership.id) {
      if (owned.internalUrl === null) places.delete(key)
      else places.set(key, { kind: 'other', edgeId: owned.edgeId, internalUrl: owned.internalUrl })
      return { isRestarted: false }
    }
    const lease = await acquireHere(fn, owned.slot ?? undefined, owned.expiresAt)
    try {
      const { slot, instance } = lease
      const isRestarted = owned.instance !== null && owned.instance !== instance
      const isNews = owned.slot !== slot || owned.instance !== instance
      if (isNews && guessedUntil === 0 && !(await choosePinnedSlot(db, membership.id, id, { slot, instance }))) {
        places.delete(key)
        lease.release()
        return { isRestarted }
      }
      // A guess is not stored, so it ends with `guessedUntil`.
      const certainIn = guessedUntil === 0 ? term : undefined
      places.set(key, { kind: 'own', term: certainIn, guessedUntil, slot, instance, expiresAt: owned.expiresAt })
      return { isRestarted, lease }
    } catch (error) {
      lease.release()
      throw error
    }
  }

  const isCertain = ({ term, guessedUntil }: Extract<Place, { kind: 'own' }>): boolean =>
    performance.now() < guessedUntil || (term !== undefined && term === membership.term())

  /** Returns undefined if the cached state of the pin is no longer certain. */
  async function acquireKept(fn: Fn, pin: StickyPin, place: Place | undefined): Promise<FunctionLease | undefined> {
    if (place?.kind === 'other') return others.acquire(place, fn, pin)
    if (!place || place.expiresAt < pin.expiresAt || !isCertain(place)) return undefined
    const lease = await acquireHere(fn, place.slot, place.expiresAt)
    if (lease.instance === place.instance) return lease
    lease.release()
    return undefined
  }

  /** isAsked: by another edge, which is told if the pin is not this one's. */
  async function acquire(fn: Fn, pin: StickyPin, isAsked: boolean): Promise<FunctionLease | undefined> {
    const key = keyOf(fn, pin)
    const until = performance.now() + PATIENCE_MS
    let isRestarted = false
    let hasSettled = false
    let obstacle: EdgeUnreachable | undefined
    const withRestartHeader = (lease: FunctionLease): FunctionLease =>
      isRestarted ? Object.assign(lease, { headers: { ...lease.headers, 'x-sticky-restarted': '1' } }) : lease
    for (;;) {
      const place = places.get(key)
      if (isAsked && place?.kind === 'other' && hasSettled) return undefined
      try {
        const lease = await acquireKept(fn, pin, isAsked && place?.kind === 'other' ? undefined : place)
        if (lease) return withRestartHeader(lease)
      } catch (error) {
        if (!(error instanceof EdgeUnreachable)) throw error
        obstacle = error
      }
      if (performance.now() >= until) throw new Unavailable('The edge that has a pin does not answer', obstacle)
      if (isAsked && !membership.hasJoined) return undefined
      if (hasSettled) await sleep(AGAIN_MS)
      hasSettled = true
      let under = settling.get(key)
      const isFirst = under === undefined
      if (!under) settling.set(key, (under = settle(fn, pin, key).finally(() => settling.delete(key))))
      const settled = await under
      isRestarted ||= settled.isRestarted
      if (isFirst && settled.lease) return withRestartHeader(settled.lease)
    }
  }

  return {
    async acquire(fn, pin) {
      const lease = await acquire(fn, pin, false)
      if (!lease) throw new Unavailable('The owner of a pin keeps changing')
      return lease
    },
    acquireOwn: (fn, pin) => acquire(fn, pin, true),
  }
}
