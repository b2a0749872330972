import { isUuid } from '@platform/runtime/is-uuid'
import type { Signer } from '@platform/runtime/seal'

/** The header in which an edge names the deployment whose Function sent the request: `<deployment id>.<signature>`. */
export const DEPLOYMENT_ADDRESS_HEADER = 'x-platform-deployment'

/** The header value. The edge sets it in place of anything the Function sent. It is a credential: never log it. */
export const signDeploymentAddress = (signer: Signer, deploymentId: string): string =>
  `${deploymentId}.${signer.sign(deploymentId)}`

/**
 * The deployment that a request is relayed for. It stands in for the client's address in rate limits, so that a flood from one
 * deployment does not use up another's budget (D56). Returns undefined if the header is absent or its signature does not verify.
 */
export function readDeploymentAddress(signer: Signer, value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const dot = value.indexOf('.')
  const deploymentId = value.slice(0, dot)
  if (!isUuid(deploymentId) || !signer.verify(deploymentId, value.slice(dot + 1))) return undefined
  return deploymentId
}
