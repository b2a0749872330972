import { BadRequest, NotFound } from '@platform/errors/api-error'
import { isUuid } from '@platform/runtime/is-uuid'
import { and, eq, isNotNull, isNull, type SQL } from 'drizzle-orm'
import type { Actor, Deps } from '../../deps.ts'
import {
  type Application,
  type Environment,
  findNamedEnvironment,
  reachApplication,
  reachEnvironmentOf,
} from '../applications/reach.ts'
import { environments } from '../applications/table.ts'
import type { Bucket } from './buckets.ts'
import type { StoredObject } from './commit-object.ts'
import { buckets, objects } from './table.ts'

interface Call {
  deps: Pick<Deps, 'db'>
  actor: Actor
  /** environment: of the path, or of the query of the flat form; undefined where that names none. */
  params: { applicationId: string; environment?: string }
}

/** The environment below an application that the actor reaches. */
export async function reachEnvironment(call: Call): Promise<{ application: Application; environment: Environment }> {
  const { applicationId, environment } = call.params
  const application = await reachApplication(call, applicationId)
  return { application, environment: await reachEnvironmentOf(call, application, environment) }
}

/**
 * Where a bucket is looked for. Named by its UUID it needs no environment: without one any of the application's will do (D35), but for
 * a Function, which has one environment (D9).
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

/** What a body says of the environment that a path or query names has to agree with it (D35). Throws BadRequest. */
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
 * Where a new bucket goes: the environment that path or query names, else the one of the body, else a Function's own, else production (D35).
 * Throws BadRequest where they disagree.
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
  /** True where the path named it by its UUID, which is deprecated (A §2, D39). */
  isNamedById: boolean
}

/** The bucket of the path: a name first, then a UUID (D39). */
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

/** An object of the environment, live or in the trash; where the path names a bucket too, one of that. */
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

/** A live object: one in the trash reads as missing (D40). */
export const reachObject = (call: Call & { params: { objectId: string; bucket?: string } }) =>
  reachObjectIn(call, false)

/** An object in the trash. */
export const reachTrashedObject = (call: Call & { params: { objectId: string; bucket?: string } }) =>
  reachObjectIn(call, true)
