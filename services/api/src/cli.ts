import { skipPackageLookups } from '@platform/runtime/skip-package-lookups'

// Everything else is imported afterwards, or it would be loaded already.
skipPackageLookups(['drizzle-orm', 'hono'])
await import('./commands/run.ts')
