import { desc, eq, type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import { Gauge } from 'prom-client'
import { ApiError, Forbidden } from '@platform/errors/api-error'
import type { StorageDeps } from '../deps.ts'
import { applications } from '../../tenancy/applications/table.ts'
import { organizations } from '../../tenancy/organizations/table.ts'
import { isWithheldFrom, noAccess } from '../../tenancy/products/product-access.ts'
import { quotas } from '../../tenancy/products/registry.ts'
import { quotaOverrides, subscriptions } from '../../tenancy/products/table.ts'
import { bucketCounts, buckets, storedBytes, uploadBlobs, uploads } from './table.ts'

/** Organizations in the metric: those that store the most. */
const SHOWN_MAX = 1_000

const gauge = new Gauge({
  name: 'organization_stored_bytes',
  help: 'Bytes that an organization stores: live, in the trash, or in uploads under way. Of the 1,000 that store the most.',
  labelNames: ['organization', 'state'],
})

/** SQL: an organization's `stored_bytes` quota, as in `quotasOf`. */
const limit = sql`coalesce(
  (select ${quotaOverrides.limit} from ${quotaOverrides}
    where ${quotaOverrides.organizationId} = ${organizations.id} and ${quotaOverrides.quota} = 'stored_bytes'),
  case when exists (select from ${subscriptions} where ${subscriptions.organizationId} = ${organizations.id}
      and ${subscriptions.product} = 'network' and ${subscriptions.status} = 'ACTIVE' and ${subscriptions.plan} = 'pro')
    then ${quotas.pro.stored_bytes}::bigint else ${quotas.free.stored_bytes}::bigint end)`

/** SQL: bytes by bucket, in several rows each: live, in the trash, and in open uploads. */
const byBucket = sql`(
  select ${bucketCounts.bucketId}, ${bucketCounts.bytes}, ${bucketCounts.trashedBytes}, 0::bigint from ${bucketCounts}
  union all
  select ${uploads.bucketId}, 0, 0, ${uploadBlobs.length} from ${uploads}
    join ${uploadBlobs} on ${uploadBlobs.uploadId} = ${uploads.id}
    where ${uploads.bucketId} is not null and ${uploads.state} in ('pending', 'ready')
) as stored(bucket_id, bytes, trashed_bytes, uploading_bytes)`
const [live, trashed, uploading] = ['bytes', 'trashed_bytes', 'uploading_bytes'].map(
  (name) => sql`coalesce(sum(stored.${sql.identifier(name)}), 0)`,
) as [SQL, SQL, SQL]

/**
 * Sums what each organization stores, live, in its trash and in open uploads, and records which have reached their quota. Writers
 * check the last record, so that no write has to lock or sum anything; between two sums an organization can exceed its quota by
 * what it writes.
 */
export async function sumStoredBytes({ db, now }: Pick<StorageDeps, 'db' | 'now'>): Promise<void> {
  await db.execute(sql`
    insert into ${storedBytes} as before (organization_id, bytes, trashed_bytes, uploading_bytes, is_full, measured_at)
    select ${organizations.id}, ${live}, ${trashed}, ${uploading}, ${live} + ${trashed} + ${uploading} >= ${limit},
      ${now().toISOString()}::timestamptz
    from ${organizations}
      left join ${applications} on ${applications.organizationId} = ${organizations.id}
      left join ${buckets} on ${buckets.applicationId} = ${applications.id}
      left join ${byBucket} on stored.bucket_id = ${buckets.id}
    where stored.bucket_id is not null
      or exists (select from ${storedBytes} where ${storedBytes.organizationId} = ${organizations.id})
    group by ${organizations.id} order by ${organizations.id}
    on conflict (organization_id) do update set bytes = excluded.bytes, trashed_bytes = excluded.trashed_bytes,
      uploading_bytes = excluded.uploading_bytes, is_full = excluded.is_full, measured_at = excluded.measured_at
      -- Most organizations change nothing between two sums: their rows are left alone, whatever the number of workers.
      where (before.bytes, before.trashed_bytes, before.uploading_bytes, before.is_full)
        is distinct from (excluded.bytes, excluded.trashed_bytes, excluded.uploading_bytes, excluded.is_full)`)
  const rows = await db
    .select()
    .from(storedBytes)
    .orderBy(desc(sql`${storedBytes.bytes} + ${storedBytes.trashedBytes} + ${storedBytes.uploadingBytes}`))
    .limit(SHOWN_MAX)
  gauge.reset()
  for (const { organizationId: organization, bytes, trashedBytes, uploadingBytes } of rows) {
    gauge.set({ organization, state: 'live' }, bytes)
    gauge.set({ organization, state: 'trash' }, trashedBytes)
    gauge.set({ organization, state: 'uploading' }, uploadingBytes)
  }
}

/** What an organization stores now, in bytes: live, in its trash, and in open uploads. */
export async function storedBytesOf({ db }: Pick<StorageDeps, 'db'>, organizationId: string): Promise<number> {
  const [row] = await db.execute<{ bytes: string }>(sql`
    select ${live} + ${trashed} + ${uploading} as bytes
    from ${applications} join ${buckets} on ${buckets.applicationId} = ${applications.id}
      join ${byBucket} on stored.bucket_id = ${buckets.id}
    where ${applications.organizationId} = ${organizationId}`)
  return Number(row?.bytes ?? 0)
}

/** SQL: true if an organization had reached its quota of bytes at the last sum. */
const isFull = (organizationId: SQLWrapper): SQL<boolean> =>
  sql<boolean>`exists (select from ${storedBytes} where ${storedBytes.organizationId} = ${organizationId} and ${storedBytes.isFull})`

/** The same for the organization of an application. */
export const isFullBelow = (applicationId: SQLWrapper): SQL<boolean> =>
  isFull(sql`(select ${applications.organizationId} from ${applications} where ${applications.id} = ${applicationId})`)

/** The error message if the organization has reached its quota of bytes. */
export const FULL =
  'The organization stores as many bytes as its quota stored_bytes allows. Remove objects and empty the trash, or contact support to raise it.'

/**
 * Throws Forbidden if the organization has no access to storage (D91), and a 429 that waiting does not clear if it has reached
 * its quota.
 */
export async function requireStorageWrite({ db }: Pick<StorageDeps, 'db'>, applicationId: string): Promise<void> {
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
