import { skipPackageLookups } from '@platform/service/skip-package-lookups'

// Everything else is imported afterwards; a static import would load it first.
skipPackageLookups(['drizzle-orm', 'hono', 'nodemailer'])
const { runProcess } = await import('@platform/service/run-process')
const { runCommandLine } = await import('./commands/run.ts')
await runProcess(runCommandLine)
