import { NotFound } from '@platform/errors/api-error'
import { and, eq, isNotNull, isNull } from 'drizzle-orm'
import type { Actor, Deps } from '../../deps.ts'
import { type Application, type Environment, getEnvironment, reachApplication } from '../applications/reach.ts'
import type { Bucket } from './buckets.ts'
import type { StoredObject } from './commit-object.ts'
import { buckets, objects } from './table.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

interface Call {
  deps: Pick<Deps, 'db'>
  actor: Actor
  params: { applicationId: string; environment: string }
}

/** The environment below an application that the actor reaches. */
export async function reachEnvironment(call: Call): Promise<{ application: Application; environment: Environment }> {
  const application = await reachApplication(call, call.params.applicationId)
  return { application, environment: await getEnvironment(call.deps, application, call.params.environment) }
}

export interface ReachedBucket extends Bucket {
  /** True where the path named it by its UUID, which is deprecated (A §2, D39). */
  isNamedById: boolean
}

/** The bucket of the path: a name first, then a UUID (D39). */
export async function reachBucket(call: Call & { params: { bucket: string } }): Promise<ReachedBucket> {
  const { environment } = await reachEnvironment(call)
  const reference = call.params.bucket
  const isNamedById = UUID.test(reference)
  const [found] = await call.deps.db
    .select()
    .from(buckets)
    .where(
      and(
        eq(buckets.environmentId, environment.id),
        isNamedById ? eq(buckets.id, reference) : eq(buckets.name, reference),
        isNull(buckets.deletedAt),
      ),
    )
  if (!found) throw new NotFound('Bucket')
  return { ...found, environment: environment.slug, isNamedById }
}

/** An object of the environment, live or in the trash; where the path names a bucket too, one of that. */
async function reachObjectIn(
  call: Call & { params: { objectId: string; bucket?: string } },
  isTrashed: boolean,
): Promise<{ bucket: Bucket; object: StoredObject }> {
  const { environment } = await reachEnvironment(call)
  const { objectId, bucket: reference } = call.params
  const [found] = await call.deps.db
    .select({ bucket: buckets, object: objects })
    .from(objects)
    .innerJoin(buckets, eq(buckets.id, objects.bucketId))
    .where(
      and(
        eq(objects.id, objectId),
        isTrashed ? isNotNull(objects.deletedAt) : isNull(objects.deletedAt),
        eq(buckets.environmentId, environment.id),
        isNull(buckets.deletedAt),
      ),
    )
  if (!found) throw new NotFound('Object')
  const { bucket, object } = found
  if (reference !== undefined && reference !== bucket.name && reference.toLowerCase() !== bucket.id)
    throw new NotFound('Object')
  return { bucket: { ...bucket, environment: environment.slug }, object }
}

/** A live object: one in the trash reads as missing (D40). */
export const reachObject = (call: Call & { params: { objectId: string; bucket?: string } }) =>
  reachObjectIn(call, false)

/** An object in the trash. */
export const reachTrashedObject = (call: Call & { params: { objectId: string; bucket?: string } }) =>
  reachObjectIn(call, true)
