import { isUuid } from '@platform/runtime/is-uuid'
import type { Signer } from '@platform/runtime/seal'

/** The header in which an edge says whose Function it relays a request of: `<deployment id>.<signature>`. */
export const DEPLOYMENT_ADDRESS_HEADER = 'x-platform-deployment'

/** The value that an edge sets, in place of any that the Function sent. It is an authority of its own: log it nowhere. */
export const signDeploymentAddress = (signer: Signer, deploymentId: string): string =>
  `${deploymentId}.${signer.sign(deploymentId)}`

/**
 * The deployment that a request is relayed for, which is then its client's address, so that one deployment's flood is no other's
 * (D56). undefined where the header is absent or is not signed by this platform for this deployment.
 */
export function readDeploymentAddress(signer: Signer, value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const dot = value.indexOf('.')
  const deploymentId = value.slice(0, dot)
  if (!isUuid(deploymentId) || !signer.verify(deploymentId, value.slice(dot + 1))) return undefined
  return deploymentId
}
