import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { isScope } from '@platform/auth/scopes'
import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { type Db, isUniqueViolation, one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { isUuid } from '@platform/runtime/is-uuid'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, asc, desc, eq, gt, isNull, lte, or } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { type Client, grantTypes } from './client.ts'
import { redirectUriFlaw } from './redirect-uri.ts'
import { clients, clientSecrets } from './table.ts'

type ClientDeps = Pick<Deps, 'db' | 'now'>

/** A client as the operator describes it. */
export interface NewClient {
  /** A UUID; random if absent. */
  id?: string | undefined
  name: string
  requester?: string | undefined
  kind: 'public' | 'confidential'
  /** For a confidential client; random if absent. At least 16 characters, since it is hashed with a fast hash. */
  secret?: string | undefined
  redirectUris: readonly string[]
  postLogoutRedirectUris?: readonly string[] | undefined
  grants: readonly string[]
  /** `*`: the whole catalogue. */
  scopes: '*' | readonly string[]
  isFirstParty?: boolean | undefined
  requiredProduct?: string | null | undefined
}

const SECRET_LENGTH_MIN = 16
const hashSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest()
const newSecret = (): string => `idp_secret_${randomBytes(32).toString('base64url')}`

/** The row for a description. Throws BadRequest if it is invalid. */
function checkedClient(client: NewClient): Omit<typeof clients.$inferInsert, 'createdAt' | 'updatedAt'> {
  const id = client.id ?? randomUUID()
  if (!isUuid(id)) throw new BadRequest('A client id is a UUID')
  const { kind, redirectUris, postLogoutRedirectUris = [], grants, scopes } = client
  if (client.name.trim() === '' || client.name.includes('\0')) throw new BadRequest('A client has a name')
  for (const uri of [...redirectUris, ...postLogoutRedirectUris]) {
    const flaw = redirectUriFlaw(uri, kind)
    if (flaw !== undefined) throw new BadRequest(`The redirect URI ${JSON.stringify(uri)} ${flaw}`)
  }
  const unknownGrant = grants.find((grant) => !(grantTypes as readonly string[]).includes(grant))
  if (unknownGrant !== undefined)
    throw new BadRequest(`Unknown grant ${unknownGrant}; there are ${grantTypes.join(', ')}`)
  const unknownScope = scopes === '*' ? undefined : scopes.find((scope) => !isScope(scope))
  if (unknownScope !== undefined) throw new BadRequest(`Unknown scope ${unknownScope}`)
  if (scopes !== '*' && scopes.includes('offline_access') && !grants.includes('refresh_token'))
    throw new BadRequest('offline_access is for clients with the grant refresh_token')
  if (kind === 'public' && client.secret !== undefined) throw new BadRequest('A public client has no secret')
  if (client.secret !== undefined && client.secret.length < SECRET_LENGTH_MIN)
    throw new BadRequest(`A client secret has at least ${SECRET_LENGTH_MIN} characters`)
  return {
    id: id.toLowerCase(),
    name: client.name.trim(),
    requester: client.requester ?? null,
    kind,
    redirectUris: [...redirectUris],
    postLogoutRedirectUris: [...postLogoutRedirectUris],
    grants: [...grants],
    scopes: scopes === '*' ? null : [...new Set(scopes)],
    isFirstParty: client.isFirstParty ?? false,
    requiredProduct: client.requiredProduct ?? null,
  }
}

async function insertSecret(tx: Pick<Db, 'insert'>, time: Date, clientId: string, secret: string): Promise<void> {
  await tx.insert(clientSecrets).values({ id: newId(), clientId, secretHash: hashSecret(secret), createdAt: time })
}

/** Creates a client. Returns the secret of a confidential one, which is shown only here. Throws BadRequest, Conflict. */
export async function createClient(
  { db, now }: ClientDeps,
  client: NewClient,
  actor: AuditActor = 'operator',
): Promise<{ client: Client; secret: string | undefined }> {
  const time = now()
  const row = checkedClient(client)
  const secret = client.kind === 'confidential' ? (client.secret ?? newSecret()) : undefined
  try {
    return await db.transaction(async (tx) => {
      const made = one(
        await tx
          .insert(clients)
          .values({ ...row, createdAt: time, updatedAt: time })
          .returning(),
      )
      if (secret !== undefined) await insertSecret(tx, time, made.id, secret)
      await recordAudit(tx, time, {
        actor,
        action: 'client.created',
        subject: `client:${made.id}`,
        details: { name: made.name, kind: made.kind },
      })
      return { client: made, secret }
    })
  } catch (error) {
    if (isUniqueViolation(error, 'clients_pkey')) throw new Conflict(`A client with the id ${row.id} exists already`)
    throw error
  }
}

/**
 * Creates the client with this id, or updates the existing one to match the description; safe to repeat. A given secret
 * replaces all others; without one, the secrets stay, as does everything that the description omits. A disabled client stays
 * disabled.
 */
export async function ensureClient(
  deps: ClientDeps,
  wanted: NewClient & { id: string },
): Promise<{ isNew: boolean; secret: string | undefined }> {
  const { db, now } = deps
  const id = wanted.id.toLowerCase()
  const [before] = isUuid(id) ? await db.select().from(clients).where(eq(clients.id, id)) : []
  if (!before) return { isNew: true, secret: (await createClient(deps, wanted)).secret }
  const row = {
    ...checkedClient(wanted),
    requester: wanted.requester ?? before.requester,
    requiredProduct: wanted.requiredProduct === undefined ? before.requiredProduct : wanted.requiredProduct,
    isFirstParty: wanted.isFirstParty ?? before.isFirstParty,
  }
  const isSameRow = Object.entries(row).every(
    ([name, value]) => JSON.stringify(before[name as keyof Client]) === JSON.stringify(value),
  )
  const held = await db.select().from(clientSecrets).where(eq(clientSecrets.clientId, id))
  const secretHash = wanted.secret === undefined ? undefined : hashSecret(wanted.secret)
  const isSameSecret =
    wanted.kind === 'public'
      ? held.length === 0
      : secretHash === undefined || (held.length === 1 && held[0]?.secretHash.equals(secretHash))
  if (isSameRow && isSameSecret) return { isNew: false, secret: undefined }
  const time = now()
  await db.transaction(async (tx) => {
    await tx
      .update(clients)
      .set({ ...row, updatedAt: time })
      .where(eq(clients.id, id))
    if (!isSameSecret) await tx.delete(clientSecrets).where(eq(clientSecrets.clientId, id))
    if (!isSameSecret && wanted.secret !== undefined) await insertSecret(tx, time, id, wanted.secret)
    await recordAudit(tx, time, { actor: 'operator', action: 'client.changed', subject: `client:${id}` })
  })
  return { isNew: false, secret: undefined }
}

/** What the operator changes of a client; undefined fields stay. An empty requester is cleared. */
type ClientChanges = Partial<
  Pick<
    NewClient,
    'name' | 'requester' | 'redirectUris' | 'postLogoutRedirectUris' | 'grants' | 'scopes' | 'isFirstParty'
  >
>

/** Changes a client. What it was granted stays. Safe to repeat. Throws NotFound, and BadRequest if the result is invalid. */
export async function updateClient(
  { db, now }: ClientDeps,
  { clientId, changes }: { clientId: string; changes: ClientChanges },
  actor: AuditActor = 'operator',
): Promise<Client> {
  const time = now()
  return db.transaction(async (tx) => {
    const [before] = await tx.select().from(clients).where(eq(clients.id, clientId)).for('update')
    if (!before) throw new NotFound('Client')
    const row = checkedClient({
      id: before.id,
      kind: before.kind,
      requiredProduct: before.requiredProduct,
      name: changes.name ?? before.name,
      requester: (changes.requester ?? before.requester)?.trim() || undefined,
      redirectUris: changes.redirectUris ?? before.redirectUris,
      postLogoutRedirectUris: changes.postLogoutRedirectUris ?? before.postLogoutRedirectUris,
      grants: changes.grants ?? before.grants,
      scopes: changes.scopes ?? before.scopes ?? '*',
      isFirstParty: changes.isFirstParty ?? before.isFirstParty,
    })
    const changed = Object.entries(row).flatMap(([name, value]) =>
      JSON.stringify(before[name as keyof Client]) === JSON.stringify(value) ? [] : [name],
    )
    if (changed.length === 0) return before
    const updated = await tx
      .update(clients)
      .set({ ...row, updatedAt: time })
      .where(eq(clients.id, clientId))
      .returning()
    await recordAudit(tx, time, {
      actor,
      action: 'client.changed',
      subject: `client:${clientId}`,
      details: { changed },
    })
    return one(updated)
  })
}

/** A client, even a disabled one, with its live secrets, newest first; of these only the times. Throws NotFound. */
export async function getClient(
  { db, now }: ClientDeps,
  clientId: string,
): Promise<Client & { secrets: { createdAt: Date; expiresAt: Date | null }[] }> {
  const [client] = await db.select().from(clients).where(eq(clients.id, clientId))
  if (!client) throw new NotFound('Client')
  const secrets = await db
    .select({ createdAt: clientSecrets.createdAt, expiresAt: clientSecrets.expiresAt })
    .from(clientSecrets)
    .where(
      and(
        eq(clientSecrets.clientId, clientId),
        or(isNull(clientSecrets.expiresAt), gt(clientSecrets.expiresAt, now())),
      ),
    )
    .orderBy(desc(clientSecrets.createdAt), desc(clientSecrets.id))
  return { ...client, secrets }
}

/** All clients, oldest first, including disabled ones. */
export const listClients = ({ db }: Pick<Deps, 'db'>): Promise<Client[]> =>
  db.select().from(clients).orderBy(asc(clients.createdAt), asc(clients.id))

/**
 * Gives a confidential client a new secret. The newest old one works for `overlapMs` more, the rest end at once, so at most
 * two are valid. Returns the secret, which is stored only as a hash. Throws NotFound, and BadRequest for a public client.
 */
export async function rotateClientSecret(
  { db, now }: ClientDeps,
  { clientId, overlapMs }: { clientId: string; overlapMs: number },
  actor: AuditActor = 'operator',
): Promise<string> {
  const time = now()
  const secret = newSecret()
  await db.transaction(async (tx) => {
    const [client] = await tx.select().from(clients).where(eq(clients.id, clientId)).for('update')
    if (!client) throw new NotFound('Client')
    if (client.kind === 'public') throw new BadRequest('A public client has no secret')
    const live = await tx
      .select({ id: clientSecrets.id })
      .from(clientSecrets)
      .where(
        and(
          eq(clientSecrets.clientId, clientId),
          or(isNull(clientSecrets.expiresAt), gt(clientSecrets.expiresAt, time)),
        ),
      )
      .orderBy(desc(clientSecrets.createdAt), desc(clientSecrets.id))
    const until = new Date(time.getTime() + overlapMs)
    for (const [place, { id }] of live.entries())
      await tx
        .update(clientSecrets)
        .set({ expiresAt: place === 0 ? until : time })
        .where(eq(clientSecrets.id, id))
    await tx.delete(clientSecrets).where(and(eq(clientSecrets.clientId, clientId), lte(clientSecrets.expiresAt, time)))
    await insertSecret(tx, time, clientId, secret)
    await recordAudit(tx, time, { actor, action: 'client.secret_rotated', subject: `client:${clientId}` })
  })
  return secret
}

interface Policy {
  /** Exact domains of a verified email. */
  domains?: readonly string[] | undefined
  userIds?: readonly string[] | undefined
  requiresSecondFactor?: boolean | undefined
  requiredProduct?: string | null | undefined
}

/** Sets who may sign in to a client (B §5). Undefined fields stay. Throws NotFound, BadRequest. */
export async function setClientPolicy(
  { db, now }: ClientDeps,
  { clientId, policy }: { clientId: string; policy: Policy },
  actor: AuditActor = 'operator',
): Promise<void> {
  const time = now()
  const userIds = policy.userIds?.map((id) => id.toLowerCase())
  if (userIds?.some((id) => !isUuid(id))) throw new BadRequest('A user id is a UUID')
  await db.transaction(async (tx) => {
    const changed = await tx
      .update(clients)
      .set({
        policyDomains: policy.domains?.map((domain) => domain.toLowerCase()),
        policyUserIds: userIds,
        requiresSecondFactor: policy.requiresSecondFactor,
        requiredProduct: policy.requiredProduct,
        updatedAt: time,
      })
      .where(eq(clients.id, clientId))
      .returning({ id: clients.id })
    if (changed.length === 0) throw new NotFound('Client')
    await recordAudit(tx, time, {
      actor,
      action: 'client.policy_set',
      subject: `client:${clientId}`,
      details: { ...policy },
    })
  })
}
