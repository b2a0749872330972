import { hash } from 'node:crypto'

/** The id of a deployment's file, which has no row of its own: a UUIDv8 of both that never changes (wire.md Deployments). */
export function assetIdOf(deploymentId: string, path: string): string {
  const digest = hash('sha256', `${deploymentId}/${path}`, 'hex')
  const variant = ((Number.parseInt(digest.charAt(16), 16) & 3) | 8).toString(16)
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-8${digest.slice(13, 16)}-${variant}${digest.slice(17, 20)}-${digest.slice(20, 32)}`
}

/** The id of a deployment's Function; never changes. path: in the output, without `.func`. */
export const functionIdOf = (deploymentId: string, path: string): string => assetIdOf(deploymentId, `${path}.func`)
