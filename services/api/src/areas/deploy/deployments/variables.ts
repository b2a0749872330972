import { openText, sealText } from '@platform/runtime/sealed-text'
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import type { FunctionCredential } from '../../credentials/api-keys/function-credential.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { resolveVariables } from '../../tenancy/env-vars/env-vars.ts'
import { type DeployedVariable, deployments } from './table.ts'
import type { Deployment } from './transitions.ts'

/** Enough characters to rule out collisions, too few to be mistaken for a secret. */
const DIGEST_LENGTH = 16
const RESEALED_AT_ONCE = 500

const contextOf = (id: string): string => `variables of deployment ${id}`

type Owned = Pick<Deployment, 'id' | 'applicationId' | 'organizationId' | 'environmentId'>

const resolved = (deps: Pick<DeployDeps, 'db' | 'sealer'>, { applicationId, organizationId, environmentId }: Owned) =>
  resolveVariables(deps, { id: applicationId, organizationId }, environmentId)

/** The variables of a build, as of one instant. */
export interface BuildVariables {
  /** Values that the build log must not show: those of sensitive variables. */
  secrets: string[]
  /** All variables for the build, byte for byte. */
  values(): Record<string, string>
}

/**
 * Reads the current variables once, so that a build and the redaction of its log see the same values, whatever changes meanwhile.
 */
export async function findBuildVariables(
  deps: Pick<DeployDeps, 'db' | 'sealer'>,
  deployment: Owned,
): Promise<BuildVariables> {
  const variables = await resolved(deps, deployment)
  return {
    secrets: variables.filter(({ sensitive }) => sensitive).map(({ value }) => value()),
    values: () => Object.fromEntries(variables.map(({ key, value }) => [key, value()])),
  }
}

/**
 * Captures the current variables for a deployment that is being provisioned.
 *
 * sealedVariables: their values and the deployment's credential as one JSON object, sealed for its row. variables: the list that
 * the API shows, without the platform's own. Within an application, equal values of a key have equal digests, until the master
 * key changes; a digest reveals nothing about its value. D97.
 */
export async function provisionVariables(
  deps: Pick<DeployDeps, 'db' | 'sealer' | 'variableSigner'>,
  deployment: Owned,
  { clientId, secret }: Pick<FunctionCredential, 'clientId' | 'secret'>,
): Promise<{ variables: DeployedVariable[]; sealedVariables: string }> {
  // People's variables cannot begin with PLATFORM_ (D49).
  const values = [
    ['PLATFORM_CLIENT_ID', clientId],
    ['PLATFORM_CLIENT_SECRET', secret],
  ]
  const variables = (await resolved(deps, deployment)).map(({ key, source, sensitive, value }) => {
    const text = value()
    values.push([key, text])
    const signature = deps.variableSigner.sign(`${deployment.applicationId}\n${key}\n${text}`)
    return { key, source, sensitive, digest: signature.slice(signature.lastIndexOf('.') + 1).slice(0, DIGEST_LENGTH) }
  })
  // Plain assignment would lose a key such as __proto__.
  const text = JSON.stringify(Object.fromEntries(values))
  const sealedVariables = sealText(deps.sealer, text, contextOf(deployment.id), 'plain')
  return { variables, sealedVariables }
}

/** The variables that a deployment was provisioned with. Throws if it has none. */
async function openProvisioned({ db, sealer }: Pick<DeployDeps, 'db' | 'sealer'>, deploymentId: string) {
  const [row] = await db
    .select({
      applicationId: deployments.applicationId,
      variables: deployments.variables,
      sealed: deployments.sealedVariables,
      environment: environments.slug,
    })
    .from(deployments)
    .innerJoin(environments, eq(environments.id, deployments.environmentId))
    .where(eq(deployments.id, deploymentId))
  if (!row || row.sealed === null)
    throw new Error(`Deployment ${deploymentId} has no variables: it is not provisioned, has failed or was retired`)
  const values = JSON.parse(openText(sealer, row.sealed, contextOf(deploymentId), 'plain')) as Record<string, string>
  return { ...row, values }
}

/**
 * The variables that a deployment's Functions start with, byte for byte: the user's as sealed, and the platform's except
 * PLATFORM_API_URL, which depends on where they run (wire.md Injected into a Function).
 *
 * Throws if the deployment has none: it is not provisioned yet, has failed or was retired.
 */
export async function openDeploymentVariables(
  deps: Pick<DeployDeps, 'db' | 'sealer'>,
  deploymentId: string,
): Promise<Record<string, string>> {
  const { applicationId, environment, values } = await openProvisioned(deps, deploymentId)
  return {
    ...values,
    PLATFORM_APPLICATION_ID: applicationId,
    PLATFORM_DEPLOYMENT_ID: deploymentId,
    PLATFORM_ENVIRONMENT: environment,
  }
}

/**
 * Values that no log of a deployment's Functions may show: those of variables that were sensitive at provisioning, whatever
 * changed since, and the secret of its credential. Throws like `openDeploymentVariables`.
 */
export async function openDeploymentSecrets(
  deps: Pick<DeployDeps, 'db' | 'sealer'>,
  deploymentId: string,
): Promise<string[]> {
  const { variables, values } = await openProvisioned(deps, deploymentId)
  const keys = (variables ?? []).filter(({ sensitive }) => sensitive).map(({ key }) => key)
  return [...keys, 'PLATFORM_CLIENT_SECRET'].flatMap((key) => (Object.hasOwn(values, key) ? [values[key] ?? ''] : []))
}

/** Reseals the variables of deployments that are not sealed with the current master key. Returns how many. Safe to repeat. */
export async function resealDeploymentVariables({ db, sealer }: Pick<DeployDeps, 'db' | 'sealer'>): Promise<number> {
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
