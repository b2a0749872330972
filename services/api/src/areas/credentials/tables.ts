export { apiKeys } from './api-keys/table.ts'
