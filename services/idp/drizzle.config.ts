import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: ['./src/features/*/table.ts', '../../packages/auth/src/signing-keys-table.ts'],
  out: './migrations',
})
