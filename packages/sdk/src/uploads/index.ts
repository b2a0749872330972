export { deployArchive, type ArchiveDeployment, DeploymentFailed, type DeploymentProgress } from './deployment.ts'
export { type ObjectUpload, type ResumableUpload, uploadObject } from './object.ts'
