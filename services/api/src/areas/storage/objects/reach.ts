import { BadRequest, NotFound } from '@platform/errors/api-error'
import { isUuid } from '@platform/runtime/is-uuid'
import { and, eq, isNotNull, isNull, type SQL } from 'drizzle-orm'
import type { Actor } from '../../../http/actor.ts'
import type { StorageDeps } from '../deps.ts'
import {
  type Application,
  type Environment,
  findNamedEnvironment,
  reachApplication,
  reachEnvironmentOf,
} from '../../tenancy/applications/reach.ts'
import { environments } from '../../tenancy/applications/table.ts'
import type { Bucket } from './buckets.ts'
import type { StoredObject } from './commit-object.ts'
import { buckets, objects } from './table.ts'

interface Call {
  deps: Pick<StorageDeps, 'db'>
  actor: Actor
  /** environment: from the path, or the query of the flat form; undefined if neither names one. */
  params: { applicationId: string; environment?: string }
}

/** The environment of an application that the actor reaches. */
export async function reachEnvironment(call: Call): Promise<{ application: Application; environment: Environment }> {
  const { applicationId, environment } = call.params
  const application = await reachApplication(call, applicationId)
  return { application, environment: await reachEnvironmentOf(call, application, environment) }
}

/**
 * SQL: where to look for a bucket. A bucket named by UUID needs no environment: without one, all of the application's are
 * searched (D35), except for a Function, which has only one (D9).
 */
async function reachBucketScope(call: Call, bucket: string | undefined): Promise<SQL> {
  if (
    bucket !== undefined &&
    isUuid(bucket) &&
    call.params.environment === undefined &&
    call.actor.kind !== 'function'
  ) {
    const application = await reachApplication(call, call.params.applicationId)
    return eq(buckets.applicationId, application.id)
  }
  const { environment } = await reachEnvironment(call)
  return eq(buckets.environmentId, environment.id)
}

/** Throws BadRequest if the environment in a body differs from the one in the path or query (D35). */
function refuseOtherEnvironment({ id, slug }: Environment, body: EnvironmentOfBody): void {
  for (const reference of [body.environment, body.environmentId])
    if (reference !== undefined && reference !== slug && reference.toLowerCase() !== id)
      throw new BadRequest('The environment of the body is another than that of the path or query')
}

interface EnvironmentOfBody {
  environment?: string | undefined
  environmentId?: string | undefined
}

/**
 * The environment of a new bucket: from path or query, else from the body, else a Function's own, else production (D35). Throws
 * BadRequest if they disagree.
 */
export async function reachNewBucketPlace(
  call: Call & { body: EnvironmentOfBody },
): Promise<{ application: Application; environment: Environment }> {
  const { params, body } = call
  const application = await reachApplication(call, params.applicationId)
  if (params.environment === undefined) {
    const named = await findNamedEnvironment(call, application, body)
    return { application, environment: named ?? (await reachEnvironmentOf(call, application, undefined)) }
  }
  const environment = await reachEnvironmentOf(call, application, params.environment)
  refuseOtherEnvironment(environment, body)
  return { application, environment }
}

export interface ReachedBucket extends Bucket {
  /** True if the path named it by its UUID, which is deprecated (A §2, D39). */
  isNamedById: boolean
}

/** The bucket in the path: looked up by name first, then by UUID (D39). */
export async function reachBucket(call: Call & { params: { bucket: string } }): Promise<ReachedBucket> {
  const reference = call.params.bucket
  const isNamedById = isUuid(reference)
  const [row] = await call.deps.db
    .select({ bucket: buckets, environment: environments.slug })
    .from(buckets)
    .innerJoin(environments, eq(environments.id, buckets.environmentId))
    .where(
      and(
        await reachBucketScope(call, reference),
        isNamedById ? eq(buckets.id, reference) : eq(buckets.name, reference),
        isNull(buckets.deletedAt),
      ),
    )
  if (!row) throw new NotFound('Bucket')
  return { ...row.bucket, environment: row.environment, isNamedById }
}

/** An object of the environment, live or trashed; if the path also names a bucket, only in that one. */
async function reachObjectIn(
  call: Call & { params: { objectId: string; bucket?: string } },
  isTrashed: boolean,
): Promise<{ bucket: Bucket; object: StoredObject }> {
  const { objectId, bucket: reference } = call.params
  const [row] = await call.deps.db
    .select({ bucket: buckets, environment: environments.slug, object: objects })
    .from(objects)
    .innerJoin(buckets, eq(buckets.id, objects.bucketId))
    .innerJoin(environments, eq(environments.id, buckets.environmentId))
    .where(
      and(
        eq(objects.id, objectId),
        isTrashed ? isNotNull(objects.deletedAt) : isNull(objects.deletedAt),
        await reachBucketScope(call, reference),
        isNull(buckets.deletedAt),
      ),
    )
  if (!row) throw new NotFound('Object')
  const { bucket, environment, object } = row
  if (reference !== undefined && reference !== bucket.name && reference.toLowerCase() !== bucket.id)
    throw new NotFound('Object')
  return { bucket: { ...bucket, environment }, object }
}

/** A live object; a trashed one counts as missing (D40). */
export const reachObject = (call: Call & { params: { objectId: string; bucket?: string } }) =>
  reachObjectIn(call, false)

/** An object in the trash. */
export const reachTrashedObject = (call: Call & { params: { objectId: string; bucket?: string } }) =>
  reachObjectIn(call, true)
