import { Conflict, NotFound } from '@platform/errors/api-error'
import { isUniqueViolation } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { and, asc, eq, getTableColumns, isNull, sql } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import type { Application, Environment } from '../../tenancy/applications/reach.ts'
import { environments, type EnvironmentSlug } from '../../tenancy/applications/table.ts'
import { refuseReservedLabel, slugsFor } from '../../tenancy/organizations/labels.ts'
import { trashBelow } from './trash.ts'
import { buckets, objects, type Visibility } from './table.ts'

const SLUG_ATTEMPTS = 6

/** A bucket with the slug of its environment. */
export type Bucket = typeof buckets.$inferSelect & { environment: EnvironmentSlug }

const columns = { ...getTableColumns(buckets), environment: environments.slug }

/** All buckets of an environment or application, by name. */
export async function listBuckets(
  { db }: Pick<StorageDeps, 'db'>,
  applicationId: string,
  environmentId?: string,
): Promise<Bucket[]> {
  return db
    .select(columns)
    .from(buckets)
    .innerJoin(environments, eq(environments.id, buckets.environmentId))
    .where(
      and(
        eq(buckets.applicationId, applicationId),
        environmentId === undefined ? undefined : eq(buckets.environmentId, environmentId),
        isNull(buckets.deletedAt),
      ),
    )
    .orderBy(asc(environments.slug), asc(buckets.name))
}

const bucketByName = lazyPrepared((db) =>
  db
    .select(columns)
    .from(buckets)
    .innerJoin(environments, eq(environments.id, buckets.environmentId))
    .where(
      and(
        eq(environments.applicationId, sql.placeholder('applicationId')),
        eq(environments.slug, sql.placeholder('environment')),
        eq(buckets.name, sql.placeholder('name')),
        isNull(buckets.deletedAt),
      ),
    )
    .prepare('bucket_by_name'),
)

/** Finds a bucket by name in an application's environment. */
export async function findBucket(
  { db }: Pick<StorageDeps, 'db'>,
  applicationId: string,
  environment: EnvironmentSlug,
  name: string,
): Promise<Bucket | undefined> {
  const [bucket] = await bucketByName(db).execute({ applicationId, environment, name })
  return bucket
}

interface NewBucket {
  /** Valid by D34; the caller checks. */
  name: string
  visibility?: Visibility | undefined
  slug?: string | undefined
}

/**
 * Creates a bucket, private by default. Slugs are globally unique and derived from the name; an explicit one must be free. Throws
 * Conflict (D29, D75).
 */
export async function createBucket(
  { db, now }: Pick<StorageDeps, 'db' | 'now'>,
  application: Pick<Application, 'id'>,
  environment: Environment,
  { name, visibility = 'private', slug }: NewBucket,
): Promise<Bucket> {
  if (slug !== undefined) refuseReservedLabel(slug)
  const time = now()
  const row = {
    applicationId: application.id,
    environmentId: environment.id,
    name,
    visibility,
    createdAt: time,
    updatedAt: time,
  }
  const candidates = slug === undefined ? slugsFor(name, 'bucket').take(SLUG_ATTEMPTS) : [slug]
  try {
    for (const candidate of candidates) {
      const [made] = await db
        .insert(buckets)
        .values({ id: newId(), slug: candidate, ...row })
        .onConflictDoNothing({ target: buckets.slug })
        .returning()
      if (made) return { ...made, environment: environment.slug }
    }
  } catch (error) {
    if (isUniqueViolation(error, 'buckets_name'))
      throw new Conflict('A bucket with this name exists in the environment')
    throw error
  }
  throw new Conflict('A bucket with this slug exists')
}

/**
 * Deletes a bucket with its trash (A §3, D36). Throws Conflict if it has live objects, unless `force` deletes them too. The
 * bucket is gone at once; the worker removes its contents.
 */
export async function deleteBucket(
  deps: Pick<StorageDeps, 'db' | 'now'>,
  { id }: Pick<Bucket, 'id'>,
  force = false,
): Promise<void> {
  if (force) await trashBelow(deps, id, '')
  const time = deps.now()
  await deps.db.transaction(async (tx) => {
    // Frees the name and the slug. The update waits for concurrent writers into the bucket; later ones find it deleted.
    const [gone] = await tx
      .update(buckets)
      .set({ name: sql`'~' || ${buckets.id}`, slug: sql`'~' || ${buckets.id}`, deletedAt: time, updatedAt: time })
      .where(and(eq(buckets.id, id), isNull(buckets.deletedAt)))
      .returning({ id: buckets.id })
    if (!gone) throw new NotFound('Bucket')
    // A separate statement, since it must see what was committed while the previous one waited.
    const [left] = await tx
      .select({ id: objects.id })
      .from(objects)
      .where(and(eq(objects.bucketId, id), isNull(objects.deletedAt)))
      .limit(1)
    if (left) throw new Conflict('Bucket still holds objects')
  })
}
