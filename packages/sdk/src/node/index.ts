export { file } from './file.ts'
export { folder } from './folder.ts'
export { tokenFile } from './token-file.ts'
