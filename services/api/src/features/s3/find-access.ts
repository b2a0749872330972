import { askedRows, batchByTurn } from '@platform/runtime/batch-by-turn'
import type { Db } from '@platform/runtime/database'
import { preparedOnce } from '@platform/runtime/prepared-once'
import { and, eq, getTableColumns, isNull, sql } from 'drizzle-orm'
import { apiKeys } from '../api-keys/table.ts'
import { environments } from '../applications/table.ts'
import { isWithheldBelow } from '../products/require-product.ts'
import type { Bucket } from '../storage/buckets.ts'
import type { StoredObject } from '../storage/commit-object.ts'
import { blobs, buckets, objectBlobs, objects } from '../storage/table.ts'
import type { BucketName } from './bucket-name.ts'

/** A live object and where its content begins, as `openObject` takes it. */
export interface FoundObject {
  object: StoredObject
  first: { id: string; length: number; content: Buffer | null } | null
}

/** What a request names, as far as it is there. */
export interface Named {
  bucket: Bucket | null
  found: FoundObject | null
  /** True where the organization has no access to storage: it reads, and writes no more (D91). */
  isReadOnly: boolean
}

/** An API key, as far as its holder's requests need it. */
export interface SigningApiKey {
  id: string
  applicationId: string | null
  scopes: string[]
  expiresAt: Date | null
  signingState: Buffer | null
  signingKekId: string | null
}

const named = {
  bucket: { ...getTableColumns(buckets), environment: environments.slug },
  object: getTableColumns(objects),
  first: { id: blobs.id, length: blobs.length, content: blobs.content },
}
const key = {
  id: apiKeys.id,
  applicationId: apiKeys.applicationId,
  scopes: apiKeys.scopes,
  expiresAt: apiKeys.expiresAt,
  signingState: apiKeys.signingState,
  signingKekId: apiKeys.signingKekId,
}
const bucketNamed = and(
  eq(buckets.environmentId, environments.id),
  eq(buckets.name, sql.placeholder('name')),
  isNull(buckets.deletedAt),
)
const objectNamed = and(
  eq(objects.bucketId, buckets.id),
  eq(objects.key, sql.placeholder('key')),
  isNull(objects.deletedAt),
)
const firstPiece = and(eq(objectBlobs.objectId, objects.id), eq(objectBlobs.n, 0))

/** What a turn of the event loop asks for: a key id, and what its request names. */
const asked = askedRows({ keyId: 'uuid', environment: 'text', name: 'text', key: 'text' })

/** Keys with what is asked for along with them: one statement for all requests of a turn. */
const bySigner = preparedOnce((db) => {
  const { columns } = asked
  // A query of its own, since both columns of the index have to be used whatever the planner believes: as a plain join it
  // read the whole bucket for each key, while the table had not been analysed.
  const live = db
    .select({ id: objects.id })
    .from(objects)
    .where(and(eq(objects.bucketId, buckets.id), eq(objects.key, columns.key), isNull(objects.deletedAt)))
    .limit(1)
    .as('live')
  const query = db
    .select({ n: asked.n, key, ...named, isReadOnly: isWithheldBelow(apiKeys.applicationId, 'storage') })
    .from(asked.from)
    .innerJoin(apiKeys, and(eq(apiKeys.id, columns.keyId), isNull(apiKeys.deletedAt)))
    .leftJoin(
      environments,
      and(eq(environments.applicationId, apiKeys.applicationId), eq(environments.slug, columns.environment)),
    )
    .leftJoin(
      buckets,
      and(eq(buckets.environmentId, environments.id), eq(buckets.name, columns.name), isNull(buckets.deletedAt)),
    )
    .leftJoinLateral(live, sql`true`)
    .leftJoin(objects, eq(objects.id, live.id))
    .leftJoin(objectBlobs, firstPiece)
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .prepare('s3_by_signer')
  return batchByTurn(async (keys: readonly Record<keyof typeof columns, string | null>[]) =>
    asked.inOrder(keys, await query.execute(asked.parameters(keys))),
  )
})

const byApplication = preparedOnce((db) =>
  db
    .select({ ...named, isReadOnly: isWithheldBelow(environments.applicationId, 'storage') })
    .from(environments)
    .leftJoin(buckets, bucketNamed)
    .leftJoin(objects, objectNamed)
    .leftJoin(objectBlobs, firstPiece)
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(
      and(
        eq(environments.applicationId, sql.placeholder('applicationId')),
        eq(environments.slug, sql.placeholder('environment')),
      ),
    )
    .prepare('s3_by_application'),
)

const publicBySlug = preparedOnce((db) =>
  db
    .select(named)
    .from(buckets)
    .innerJoin(environments, eq(environments.id, buckets.environmentId))
    .leftJoin(objects, objectNamed)
    .leftJoin(objectBlobs, firstPiece)
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(and(eq(buckets.slug, sql.placeholder('slug')), eq(buckets.visibility, 'public'), isNull(buckets.deletedAt)))
    .prepare('s3_public_by_slug'),
)

/** What may be asked for along with the one who asks; undefined: not asked. */
export interface Asked {
  bucket: BucketName | undefined
  /** Asked for only where the operation needs the object. */
  key: string | undefined
}

/** drizzle types a joined table whose columns are all null as null only where every column may be. */
function asNamed(row: { bucket: unknown; object: unknown; first: unknown; isReadOnly?: boolean }): Named {
  const bucket = row.bucket as Bucket | null
  const object = row.object as StoredObject | null
  // A joined slug would make an object of a bucket that is not there.
  return {
    bucket: bucket?.id ? bucket : null,
    found: object && { object, first: row.first as FoundObject['first'] },
    isReadOnly: row.isReadOnly ?? true, // without a key nothing is written
  }
}

/** The API key of an id, unless it was deleted, with what is asked for below its application: one statement. */
export async function findSigner(
  db: Db,
  keyId: string,
  { bucket, key }: Asked,
): Promise<{ key: SigningApiKey; named: Named } | undefined> {
  const row = await bySigner(db)({
    keyId,
    environment: bucket?.environment ?? null,
    name: bucket?.name ?? null,
    key: key ?? null,
  })
  return row && { key: row.key, named: asNamed(row) }
}

const NOTHING: Named = { bucket: null, found: null, isReadOnly: false }

/** What is asked for below an application. */
export async function findBelowApplication(db: Db, applicationId: string, { bucket, key }: Asked): Promise<Named> {
  if (!bucket) return NOTHING
  const [row] = await byApplication(db).execute({ applicationId, ...bucket, key: key ?? null })
  return row ? asNamed(row) : NOTHING
}

/** What is asked for in the public bucket of a slug: without an application, only that names one (D34). */
export async function findPublic(db: Db, slug: string, key: string | undefined): Promise<Named> {
  const [row] = await publicBySlug(db).execute({ slug, key: key ?? null })
  return row ? asNamed(row) : NOTHING
}
