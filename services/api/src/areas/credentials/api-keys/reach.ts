import { InvalidToken, NotFound } from '@platform/errors/api-error'
import { and, eq, gt, isNull, or } from 'drizzle-orm'
import type { UserActor } from '../../../http/actor.ts'
import type { CredentialsDeps } from '../deps.ts'
import { applications } from '../../tenancy/applications/table.ts'
import { requireRole, type Need } from '../../tenancy/organizations/reach.ts'
import { members } from '../../tenancy/organizations/table.ts'
import { apiKeys } from './table.ts'

/**
 * The id of a live key, if the user reaches its application. Missing, deleted and foreign keys and those of deployments are all
 * 404 (D17, D9).
 */
export async function reachApiKey(
  { deps, actor }: { deps: Pick<CredentialsDeps, 'db'>; actor: UserActor },
  id: string,
  need: Need,
): Promise<string> {
  const [row] = await deps.db
    .select({ id: apiKeys.id, role: members.role })
    .from(apiKeys)
    .innerJoin(applications, eq(applications.id, apiKeys.applicationId))
    .innerJoin(members, and(eq(members.organizationId, applications.organizationId), eq(members.userId, actor.userId)))
    .where(and(eq(apiKeys.id, id), isNull(apiKeys.deploymentId), isNull(apiKeys.deletedAt)))
  if (!row) throw new NotFound('API key')
  requireRole(row.role, need)
  return row.id
}

/** Throws InvalidToken if a key was deleted or has expired, or if the credential of a deployment was revoked. */
export async function requireLiveKey({ db, now }: Pick<CredentialsDeps, 'db' | 'now'>, id: string): Promise<void> {
  const isUnexpired = or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now()))
  const [row] = await db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, id), isNull(apiKeys.deletedAt), isUnexpired))
  if (!row) throw new InvalidToken('The API key was deleted or has expired')
}
