import { skipPackageLookups } from '@platform/service/skip-package-lookups'

// Everything else is imported afterwards, or it would be loaded already.
skipPackageLookups(['drizzle-orm', 'hono', 'nodemailer'])
await import('./run.ts')
