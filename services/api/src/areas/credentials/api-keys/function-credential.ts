import { randomBytes } from 'node:crypto'
import type { ApiScope } from '@platform/auth/scopes'
import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { and, eq, inArray, isNull } from 'drizzle-orm'
import type { CredentialsDeps } from '../deps.ts'
import { hashSecret, SECRET_PREFIX } from './api-keys.ts'
import { createSigningState } from './signing-state.ts'
import { apiKeys } from './table.ts'

/** The scopes of a deployment's Functions (D9). */
const functionScopes = [
  'network:sticky_sessions:write',
  'network:env_vars:read',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:ai_gateway:chat',
  'network:ai_gateway:models',
] as const satisfies readonly ApiScope[]

/** A credential that is not stored yet. Its secret goes only into the deployment's sealed variables. */
export interface FunctionCredential {
  clientId: string
  secret: string
  row: Omit<typeof apiKeys.$inferInsert, 'createdAt' | 'updatedAt'> & { deploymentId: string }
}

/** Generates the credential with which a deployment's Functions call the API; `storeFunctionCredential` makes it valid (D9). */
export async function createFunctionCredential(
  { sealer }: Pick<CredentialsDeps, 'sealer'>,
  deployment: { id: string; applicationId: string; environmentId: string; label: string },
): Promise<FunctionCredential> {
  const clientId = newId()
  const secret = `${SECRET_PREFIX}${randomBytes(32).toString('base64url')}`
  const sealed = sealer.seal(await createSigningState(secret), `api_key:${clientId}`)
  const row = {
    id: clientId,
    applicationId: deployment.applicationId,
    deploymentId: deployment.id,
    environmentId: deployment.environmentId,
    name: `Functions of ${deployment.label}`,
    scopes: [...functionScopes],
    secretHash: hashSecret(secret),
    signingState: sealed.ciphertext,
    signingKekId: sealed.kekId,
    expiresAt: null,
  }
  return { clientId, secret, row }
}

/**
 * Revokes the credential of a deployment, like deleting a key: token exchanges and signatures fail from now on. Safe to repeat.
 */
export async function endFunctionCredential(tx: Pick<Db, 'update'>, time: Date, deploymentId: string): Promise<void> {
  await tx
    .update(apiKeys)
    .set({ deletedAt: time, updatedAt: time, signingState: null, signingKekId: null })
    .where(and(eq(apiKeys.deploymentId, deploymentId), isNull(apiKeys.deletedAt)))
}

/** Deletes the credentials of deployments, in the transaction that deletes those. */
export async function discardFunctionCredentials(
  tx: Pick<Db, 'delete'>,
  deploymentIds: readonly string[],
): Promise<void> {
  await tx.delete(apiKeys).where(inArray(apiKeys.deploymentId, [...deploymentIds]))
}

/** Stores a credential in the transaction that seals its secret. Revokes one that an earlier attempt stored. */
export async function storeFunctionCredential(
  tx: Pick<Db, 'update' | 'insert'>,
  time: Date,
  { row }: FunctionCredential,
): Promise<void> {
  await endFunctionCredential(tx, time, row.deploymentId)
  await tx.insert(apiKeys).values({ ...row, createdAt: time, updatedAt: time })
}
