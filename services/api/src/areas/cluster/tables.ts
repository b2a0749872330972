export { openStreams } from './streams/table.ts'
export { edges } from './edges/table.ts'
