export { file } from './file.ts'
export { folder } from './folder.ts'
export { type PrivateFile, privateFile } from './private-file.ts'
export { tokenFile } from './token-file.ts'
