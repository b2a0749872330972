import { desc, eq, exists, or, type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import { Gauge } from 'prom-client'
import { ApiError, Forbidden } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { applications } from '../applications/table.ts'
import { organizations } from '../organizations/table.ts'
import { isWithheldFrom, noAccess } from '../products/product-access.ts'
import { quotas } from '../products/registry.ts'
import { quotaOverrides, subscriptions } from '../products/table.ts'
import { bucketCounts, buckets, storedBytes } from './table.ts'

/** Organizations that the metric names: those that store the most. */
const SHOWN_MAX = 1_000

const gauge = new Gauge({
  name: 'organization_stored_bytes',
  help: 'Bytes of objects that an organization stores: live, or in the trash. Of the 1,000 that store the most.',
  labelNames: ['organization', 'state'],
})

/** SQL: the limit of `stored_bytes` of an organization, as `quotasOf` says it. */
const limit = sql`coalesce(
  (select ${quotaOverrides.limit} from ${quotaOverrides}
    where ${quotaOverrides.organizationId} = ${organizations.id} and ${quotaOverrides.quota} = 'stored_bytes'),
  case when exists (select from ${subscriptions} where ${subscriptions.organizationId} = ${organizations.id}
      and ${subscriptions.product} = 'network' and ${subscriptions.status} = 'ACTIVE' and ${subscriptions.plan} = 'pro')
    then ${quotas.pro.stored_bytes}::bigint else ${quotas.free.stored_bytes}::bigint end)`

const sumOf = (column: SQLWrapper): SQL => sql`coalesce(sum(${column}), 0)`

/**
 * Sums what each organization stores, live and in its trash, and notes which of them have reached their quota. Writers go by what was
 * noted last, so that no write has to lock or to sum anything; an organization can pass its quota by what it writes between two sums.
 */
export async function sumStoredBytes({ db, now }: Pick<Deps, 'db' | 'now'>): Promise<void> {
  const isKnown = exists(
    db
      .select({ n: sql`1` })
      .from(storedBytes)
      .where(eq(storedBytes.organizationId, organizations.id)),
  )
  const sums = db
    .select({
      organizationId: organizations.id,
      bytes: sumOf(bucketCounts.bytes).as('bytes'),
      trashedBytes: sumOf(bucketCounts.trashedBytes).as('trashed_bytes'),
      isFull: sql`${sumOf(bucketCounts.bytes)} + ${sumOf(bucketCounts.trashedBytes)} >= ${limit}`.as('is_full'),
      measuredAt: sql`${now().toISOString()}::timestamptz`.as('measured_at'),
    })
    .from(organizations)
    .leftJoin(applications, eq(applications.organizationId, organizations.id))
    .leftJoin(buckets, eq(buckets.applicationId, applications.id))
    .leftJoin(bucketCounts, eq(bucketCounts.bucketId, buckets.id))
    .where(or(isKnown, sql`${bucketCounts.bucketId} is not null`))
    .groupBy(organizations.id)
    .orderBy(organizations.id)
  await db
    .insert(storedBytes)
    .select(sums as never)
    .onConflictDoUpdate({
      target: storedBytes.organizationId,
      set: {
        bytes: sql`excluded.bytes`,
        trashedBytes: sql`excluded.trashed_bytes`,
        isFull: sql`excluded.is_full`,
        measuredAt: sql`excluded.measured_at`,
      },
      // Most organizations change nothing between two sums: their rows are left alone, whatever the number of workers.
      setWhere: sql`(${storedBytes.bytes}, ${storedBytes.trashedBytes}, ${storedBytes.isFull})
        is distinct from (excluded.bytes, excluded.trashed_bytes, excluded.is_full)`,
    })
  const rows = await db
    .select()
    .from(storedBytes)
    .orderBy(desc(sql`${storedBytes.bytes} + ${storedBytes.trashedBytes}`))
    .limit(SHOWN_MAX)
  gauge.reset()
  for (const { organizationId: organization, bytes, trashedBytes } of rows) {
    gauge.set({ organization, state: 'live' }, bytes)
    gauge.set({ organization, state: 'trash' }, trashedBytes)
  }
}

/** What an organization stores now, live and in its trash, in bytes. */
export async function storedBytesOf({ db }: Pick<Deps, 'db'>, organizationId: string): Promise<number> {
  const [row] = await db
    .select({ bytes: sql`${sumOf(bucketCounts.bytes)} + ${sumOf(bucketCounts.trashedBytes)}`.mapWith(Number) })
    .from(applications)
    .innerJoin(buckets, eq(buckets.applicationId, applications.id))
    .innerJoin(bucketCounts, eq(bucketCounts.bucketId, buckets.id))
    .where(eq(applications.organizationId, organizationId))
  return row?.bytes ?? 0
}

/** SQL: true where an organization had reached its quota of bytes when they were summed last. */
const isFull = (organizationId: SQLWrapper): SQL<boolean> =>
  sql<boolean>`exists (select from ${storedBytes} where ${storedBytes.organizationId} = ${organizationId} and ${storedBytes.isFull})`

/** The same of the organization of an application. */
export const isFullBelow = (applicationId: SQLWrapper): SQL<boolean> =>
  isFull(sql`(select ${applications.organizationId} from ${applications} where ${applications.id} = ${applicationId})`)

/** The message of a refusal because the organization stores as much as it may. */
export const FULL =
  'The organization stores as many bytes as its quota stored_bytes allows. Remove objects and empty the trash, or contact support to raise it.'

/** Throws Forbidden if the organization has no access to storage (D91), and a 429 that waiting does not clear if its quota is reached. */
export async function requireStorageWrite({ db }: Pick<Deps, 'db'>, applicationId: string): Promise<void> {
  const [row] = await db
    .select({
      isWithheld: isWithheldFrom(applications.organizationId, 'storage'),
      isFull: isFull(applications.organizationId),
    })
    .from(applications)
    .where(eq(applications.id, applicationId))
  if (row?.isWithheld) throw new Forbidden(noAccess('storage'))
  if (row?.isFull) throw new ApiError(429, FULL)
}
