import { hash, randomBytes } from 'node:crypto'
import { apiKeyScopes, type ApiScope, apiScopes } from '@platform/auth/scopes'
import { BadRequest, Forbidden, NotFound } from '@platform/errors/api-error'
import { one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { resealRows } from '@platform/runtime/reseal-rows'
import { and, desc, eq, isNull } from 'drizzle-orm'
import type { UserActor } from '../../../http/actor.ts'
import { requireFreshSignIn } from '../../../http/fresh-sign-in.ts'
import type { CredentialsDeps } from '../deps.ts'
import { recordActivity } from '../../tenancy/activity/record.ts'
import type { Application } from '../../tenancy/applications/reach.ts'
import { createSigningState } from './signing-state.ts'
import { apiKeys } from './table.ts'

const LIFETIME_DEFAULT_MS = 90 * 86_400_000
export const SECRET_PREFIX = 'svc_secret_'
export const SCOPE_DEFAULT: ApiScope = 'network:env_vars:read'

/** The public columns of a key: everything except hashes that a guessed secret could be checked against. */
const visible = {
  id: apiKeys.id,
  name: apiKeys.name,
  applicationId: apiKeys.applicationId,
  scopes: apiKeys.scopes,
  expiresAt: apiKeys.expiresAt,
  createdByUserId: apiKeys.createdByUserId,
  lastUsedAt: apiKeys.lastUsedAt,
  createdAt: apiKeys.createdAt,
  updatedAt: apiKeys.updatedAt,
}

/** A key as the API shows it. Keys of deleted applications are never shown. */
interface ShownKey {
  id: string
  name: string
  applicationId: string
  scopes: string[]
  expiresAt: Date | null
  createdByUserId: string
  lastUsedAt: Date | null
  createdAt: Date
  updatedAt: Date
}

/** Keys that are shown were made by a person: those of deployments never are. */
const shown = (
  row: Omit<ShownKey, 'applicationId' | 'createdByUserId'> & { createdByUserId: string | null },
  applicationId: string,
): ShownKey => ({ ...row, applicationId, createdByUserId: row.createdByUserId as string })

/** Keys with storage scopes can sign S3 requests, so they need a signing state (D42). */
const reachesStorage = (scopes: readonly string[]): boolean =>
  scopes.some((scope) => scope.startsWith('network:storage:'))

export const hashSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer')

const known: ReadonlySet<string> = new Set(apiScopes)

/**
 * Validates the whole list, rule by rule: unknown scope 400, scope not available to keys 400, scope the caller lacks 403 (A §4
 * rules 2 to 4, D7).
 */
function refuseScopes(scopes: readonly string[], by: UserActor): void {
  const unknown = scopes.find((scope) => !known.has(scope))
  if (unknown !== undefined) throw new BadRequest(`Unknown scope ${JSON.stringify(unknown.slice(0, 100))}`)
  const barred = scopes.find((scope) => !apiKeyScopes.some((allowed) => allowed === scope))
  if (barred !== undefined) throw new BadRequest(`An API key can never hold the scope ${barred}`)
  const beyond = scopes.find((scope) => !by.scopes.has(scope))
  if (beyond !== undefined) throw new Forbidden(`The requested scope ${beyond} exceeds your own access`)
}

/** Requires the console's users to have authenticated lately to manage keys (A §4 rule 6, D6). Throws SignInTooOld. */
function requireFreshConsole(
  { consoleClientIds }: Pick<CredentialsDeps, 'consoleClientIds'>,
  by: UserActor,
  time: Date,
): void {
  if (consoleClientIds.has(by.clientId)) requireFreshSignIn(by, time, 'managing API keys')
}

type Expiry = Date | null | undefined

/**
 * When a key that is created at `time` expires: 90 days later by default. Only the console may create keys that never expire; a
 * past date is refused (A §4 rule 5, D6, D8).
 */
function expiryOf(
  expiry: Expiry,
  { consoleClientIds }: Pick<CredentialsDeps, 'consoleClientIds'>,
  by: UserActor,
  time: Date,
): Date | null {
  if (expiry === undefined) return new Date(time.getTime() + LIFETIME_DEFAULT_MS)
  if (expiry === null && !consoleClientIds.has(by.clientId))
    throw new BadRequest('A key without expiry can only be created in the console')
  if (expiry !== null && expiry <= time) throw new BadRequest('expiresAt is in the past')
  return expiry
}

interface NewKey {
  name: string
  scopes: readonly string[]
  expiresAt?: Expiry
}

/**
 * Creates a key for an application. Its secret is returned here and never again (A §2). Omitted scopes mean the default set,
 * which the caller must hold like any other (D7).
 */
export async function createApiKey(
  deps: CredentialsDeps,
  by: UserActor,
  application: Application,
  newKey: NewKey,
): Promise<ShownKey & { secret: string }> {
  const time = deps.now()
  requireFreshConsole(deps, by, time)
  const scopes = newKey.scopes.length === 0 ? [SCOPE_DEFAULT] : [...new Set(newKey.scopes)]
  refuseScopes(scopes, by)
  const expiresAt = expiryOf(newKey.expiresAt, deps, by, time)

  const id = newId()
  const secret = `${SECRET_PREFIX}${randomBytes(32).toString('base64url')}`
  const sealed = reachesStorage(scopes)
    ? deps.sealer.seal(await createSigningState(secret), `api_key:${id}`)
    : undefined
  return deps.db.transaction(async (tx) => {
    const rows = await tx
      .insert(apiKeys)
      .values({
        id,
        applicationId: application.id,
        name: newKey.name,
        scopes,
        secretHash: hashSecret(secret),
        signingState: sealed?.ciphertext,
        signingKekId: sealed?.kekId,
        expiresAt,
        createdByUserId: by.userId,
        createdAt: time,
        updatedAt: time,
      })
      .returning(visible)
    const subject = { type: 'api_key', id, name: newKey.name }
    await recordActivity(tx, time, { applicationId: application.id, type: 'api_key.created', by, subject })
    return { ...shown(one(rows), application.id), secret }
  })
}

/**
 * The keys of an application, newest first; metadata only (A §4). Expired keys stay listed until they are deleted; credentials
 * of deployments are never listed (D9).
 */
export async function listApiKeys({ db }: Pick<CredentialsDeps, 'db'>, application: Application): Promise<ShownKey[]> {
  const rows = await db
    .select(visible)
    .from(apiKeys)
    .where(and(eq(apiKeys.applicationId, application.id), isNull(apiKeys.deploymentId), isNull(apiKeys.deletedAt)))
    .orderBy(desc(apiKeys.id))
  return rows.map((row) => shown(row, application.id))
}

/**
 * Revokes a key: token exchanges fail from now on (A §3). Its row stays as a tombstone (D1). Throws NotFound if it is already
 * deleted.
 */
export async function deleteApiKey(deps: CredentialsDeps, by: UserActor, id: string): Promise<void> {
  const time = deps.now()
  requireFreshConsole(deps, by, time)
  await deps.db.transaction(async (tx) => {
    const [gone] = await tx
      .update(apiKeys)
      .set({ deletedAt: time, updatedAt: time, signingState: null, signingKekId: null })
      .where(and(eq(apiKeys.id, id), isNull(apiKeys.deletedAt)))
      .returning({ applicationId: apiKeys.applicationId, name: apiKeys.name })
    if (!gone) throw new NotFound('API key')
    const { applicationId, name } = gone
    if (applicationId === null) return
    const subject = { type: 'api_key', id, name }
    await recordActivity(tx, time, { applicationId, type: 'api_key.deleted', by, subject })
  })
}

/** Reseals every signing state that is not sealed with the current master key. Returns how many. Safe to repeat. */
export const resealSigningStates = (deps: Pick<CredentialsDeps, 'db' | 'sealer'>): Promise<number> =>
  resealRows(
    deps,
    { id: apiKeys.id, ciphertext: apiKeys.signingState, kekId: apiKeys.signingKekId },
    (id) => `api_key:${id}`,
  )
