import { skipPackageLookups } from '@platform/service/skip-package-lookups'

// Imported after the hook is installed: a static import would load it before.
skipPackageLookups(['drizzle-orm', 'hono', 'nodemailer'])
const { runProcess } = await import('@platform/service/run-process')
const { runCommandLine } = await import('./commands.ts')
await runProcess(runCommandLine)
