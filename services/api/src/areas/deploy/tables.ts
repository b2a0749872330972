export {
  buildLogs,
  deploymentCounts,
  deploymentFunctions,
  deployments,
  environmentDeploymentCounts,
} from './deployments/table.ts'
export {
  artifactEncodings,
  artifacts,
  buildCaches,
  deploymentFallbacks,
  deploymentFiles,
  functionFiles,
  functionLinks,
} from './artifacts/table.ts'
export { patternVerdicts } from './builds/table.ts'
export { deploymentCrons } from './deployments/table.ts'
