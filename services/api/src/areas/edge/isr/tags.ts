import type { Db } from '@platform/runtime/database'
import type { Notifications } from '@platform/runtime/notifications'
import { sql } from 'drizzle-orm'
import { isrTags } from './table.ts'

/** Payload: `{deploymentId}` and, if it fits, the tags as a JSON list. */
const CHANNEL = 'isr_tags'
/** Postgres limits a payload to 8,000 bytes. */
const PAYLOAD_BYTES_MAX = 7_900

/**
 * Called with tags that this process or another one revalidated. If tags is undefined, any tag of the deployment may have been;
 * if deploymentId is undefined, any tag of any deployment.
 */
type OnRevalidated = (deploymentId: string | undefined, tags: readonly string[] | undefined) => void

/** Tags of pages and data, by which an application invalidates them (`revalidateTag` and the like). */
export interface IsrTags {
  /**
   * Invalidates everything that has one of the tags and was begun until now. expireSeconds: how long it may still be shown while
   * it is regenerated; 0: not at all; undefined: until that is done. Resolves once this is durable and known to this process.
   */
  revalidate(deploymentId: string, tags: readonly string[], expireSeconds: number | undefined): Promise<void>
  /**
   * Announces that tags of a deployment are about to be revalidated, until the returned function is called: meanwhile a framework
   * may already answer the visitor, whose next request must see the change.
   */
  begin(deploymentId: string): () => void
  /** Resolves once announced revalidations are done; undefined if there are none. */
  underWay(deploymentId: string): Promise<unknown> | undefined
  /** Calls back from now on. Listeners are called before `revalidate` resolves. */
  listen(onRevalidated: OnRevalidated): void
  /** False while revalidations of other processes cannot be heard. */
  readonly isListening: boolean
}

export function openIsrTags({ db, notifications }: { db: Db; notifications: Notifications }): IsrTags {
  const listeners = new Set<OnRevalidated>()
  const begun = new Map<string, Set<Promise<void>>>()
  let isListening = false
  const tell: OnRevalidated = (deploymentId, tags) => {
    for (const listener of listeners) listener(deploymentId, tags)
  }
  notifications.listen(CHANNEL, {
    onMessage(payload) {
      const deploymentId = payload.slice(0, 36)
      const tags = payload.length > 36 ? (JSON.parse(payload.slice(36)) as string[]) : undefined
      tell(deploymentId, tags)
    },
    onListening() {
      isListening = true
      tell(undefined, undefined)
    },
    onLost() {
      isListening = false
    },
  })

  return {
    async revalidate(deploymentId, names, expireSeconds) {
      // Sorted, so that two of these cannot deadlock.
      const tags = [...new Set(names)].toSorted()
      if (tags.length === 0) return
      const list = JSON.stringify(tags)
      const payload = Buffer.byteLength(list) + 36 <= PAYLOAD_BYTES_MAX ? deploymentId + list : deploymentId
      const expiry =
        expireSeconds === undefined ? sql`null` : sql`clock_timestamp() + ${`${expireSeconds} seconds`}::interval`
      await db.transaction(async (tx) => {
        await tx.execute(sql`
          insert into ${isrTags} (deployment_id, tag, stale_at, expired_at)
          select ${deploymentId}::uuid, t.tag, clock_timestamp(), ${expiry}
          from json_array_elements_text(${list}::json) with ordinality as t(tag, n) order by t.n
          on conflict (deployment_id, tag) do update
            set stale_at = excluded.stale_at, expired_at = coalesce(excluded.expired_at, ${isrTags}.expired_at)`)
        await tx.execute(sql`select pg_notify(${CHANNEL}, ${payload})`)
      })
      tell(deploymentId, tags)
    },
    begin(deploymentId) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const all = begun.get(deploymentId) ?? new Set()
      begun.set(deploymentId, all.add(promise))
      return () => {
        resolve()
        all.delete(promise)
        if (all.size === 0 && begun.get(deploymentId) === all) begun.delete(deploymentId)
      }
    },
    underWay(deploymentId) {
      const all = begun.get(deploymentId)
      return all && Promise.all(all)
    },
    listen(onRevalidated) {
      listeners.add(onRevalidated)
    },
    get isListening() {
      return isListening
    },
  }
}
