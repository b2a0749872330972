import type { CreateDeploymentData, Deployment } from '../generated/types.ts'
import { listQuotas } from '../generated/operations.ts'
import type { PackLimits } from '../pack/limits.ts'
import { type PackOptions, type PackPlan, planPack } from '../pack/plan.ts'
import type { PackSource } from '../pack/source.ts'
import { zip } from '../pack/zip.ts'
import type { Platform } from '../platform.ts'
import type { CallOptions } from '../sender.ts'
import { refuseUnknown } from '../request.ts'
import { deployArchive, type DeploymentProgress } from './deployment.ts'

type Created = CreateDeploymentData['body']

export interface FolderDeployment extends Pick<PackOptions, 'include' | 'prebuilt' | 'limits' | 'signal'> {
  applicationId: string
  /** The slug or UUID; production, where none is given. */
  environment?: Created['environment'] | undefined
  /** Where the site is below the folder; the application's, where none is given. */
  rootDirectory?: string | undefined
  /** What the platform shows about the commit. Nothing is read from the folder's repository. */
  git?: Created['git'] | undefined
  /** What is deployed: `folder(path)` of `@platform/sdk/node`, or `filesSource(files)` of `@platform/sdk/pack`. */
  source: PackSource
  onProgress?: ((progress: { step: 'planned'; plan: PackPlan } | DeploymentProgress) => void) | undefined
}

const MEMBERS = 'applicationId environment rootDirectory git source include prebuilt limits signal onProgress'.split(
  ' ',
)

/**
 * Deploys a folder: plans what is packed, packs it while it is sent, and follows the deployment to its end. Resolves to the
 * deployment once it is ACTIVE.
 *
 * Throws an Error that names what is over a limit, before any request; DeploymentFailed; PlatformError.
 */
export async function deployFolder(platform: Platform, options: FolderDeployment): Promise<Deployment> {
  refuseUnknown('deployFolder', options, MEMBERS)
  const { applicationId, environment, git, source, onProgress, ...packing } = options
  const { rootDirectory, signal } = packing
  const plan = await planPack(source, packing)
  onProgress?.({ step: 'planned', plan })
  const archive = zip(plan)
  const deployment = {
    applicationId,
    ...(environment !== undefined && { environment }),
    ...(rootDirectory !== undefined && { rootDirectory }),
    ...(git !== undefined && { git }),
  }
  return deployArchive(platform, { deployment, archive, onProgress, signal })
}

/** What the plan of an organization allows an archive, for `deployFolder` and `planPack`. */
export async function packLimits(
  platform: Platform,
  { organizationId }: { organizationId: string },
  options?: CallOptions,
): Promise<PackLimits> {
  const { items } = await listQuotas(platform, { id: organizationId }, options)
  const limitOf = (name: string) => items.find((quota) => quota.name === name)?.limit ?? undefined
  return { archiveBytes: limitOf('archive_bytes'), unpackedBytes: limitOf('unpacked_bytes') }
}
