import { skipPackageLookups } from '@platform/service/skip-package-lookups'

// Imported after the hook is installed: a static import would load it before.
skipPackageLookups(['drizzle-orm', 'hono'])
await import('./run.ts')
