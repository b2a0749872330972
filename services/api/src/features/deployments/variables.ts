import { openText, sealText } from '@platform/runtime/sealed-text'
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { resolveVariables } from '../env-vars/env-vars.ts'
import { type DeployedVariable, deployments } from './table.ts'
import type { Deployment } from './transitions.ts'

/** Enough that two values never look equal, and too few characters to be taken for a secret. */
const DIGEST_LENGTH = 16
const RESEALED_AT_ONCE = 500

const contextOf = (id: string): string => `variables of deployment ${id}`

type Owned = Pick<Deployment, 'id' | 'applicationId' | 'organizationId' | 'environmentId'>

const resolved = (deps: Pick<Deps, 'db' | 'sealer'>, { applicationId, organizationId, environmentId }: Owned) =>
  resolveVariables(deps, { id: applicationId, organizationId }, environmentId)

/** The values that a build log must not show: those of sensitive variables. */
export async function findSecrets(deps: Pick<Deps, 'db' | 'sealer'>, deployment: Owned): Promise<string[]> {
  return (await resolved(deps, deployment)).filter(({ sensitive }) => sensitive).map(({ value }) => value())
}

/**
 * The variables that a deployment is provisioned with, as they are now: their values sealed for its row, as a JSON object, and a
 * list that shows where each is from. A digest is equal for equal values of a key of one application, as long as the master key
 * is; it says nothing of the value. D97.
 */
export async function provisionVariables(
  deps: Pick<Deps, 'db' | 'sealer' | 'variableSigner'>,
  deployment: Owned,
): Promise<{ variables: DeployedVariable[]; sealedVariables: string }> {
  const values: Record<string, string> = {}
  const variables = (await resolved(deps, deployment)).map(({ key, source, value }) => {
    const text = value()
    values[key] = text
    const signature = deps.variableSigner.sign(`${deployment.applicationId}\n${key}\n${text}`)
    return { key, source, digest: signature.slice(signature.lastIndexOf('.') + 1).slice(0, DIGEST_LENGTH) }
  })
  const sealedVariables = sealText(deps.sealer, JSON.stringify(values), contextOf(deployment.id), 'plain')
  return { variables, sealedVariables }
}

/** Seals the variables of deployments under the current master key where they are under another. Returns how many. Safe to repeat. */
export async function resealDeploymentVariables({ db, sealer }: Pick<Deps, 'db' | 'sealer'>): Promise<number> {
  const isOld = and(
    isNotNull(deployments.sealedVariables),
    sql`substring(${deployments.sealedVariables} from '^(.*)\\.[^.]*$') <> ${sealer.kekId}`,
  )
  for (let resealed = 0; ;) {
    const rows = await db
      .select({ id: deployments.id, sealed: deployments.sealedVariables })
      .from(deployments)
      .where(isOld)
      .limit(RESEALED_AT_ONCE)
    for (const { id, sealed } of rows) {
      if (sealed === null) continue
      const sealedVariables = sealText(sealer, openText(sealer, sealed, contextOf(id), 'plain'), contextOf(id), 'plain')
      const { count } = await db
        .update(deployments)
        .set({ sealedVariables })
        .where(and(eq(deployments.id, id), eq(deployments.sealedVariables, sealed)))
      resealed += count
    }
    if (rows.length < RESEALED_AT_ONCE) return resealed
  }
}
