export { type ArchiveDeployment, deployArchive, DeploymentFailed, type DeploymentProgress } from './deployment.ts'
export { deployFolder, type FolderDeployment, packLimits } from './folder.ts'
export { type ObjectUpload, type ResumableUpload, uploadObject } from './object.ts'
