import { recordAudit } from '@platform/service/audit'
import type { Command } from '@platform/service/cli'
import type { StorageDeps } from './deps.ts'
import { verifyStorage } from './objects/maintenance/verify-storage.ts'

export const storageCommands: readonly Command<StorageDeps>[] = [
  {
    name: 'storage verify',
    usage: 'storage verify [--repair]',
    summary:
      'read all bytes against their checksums, compare counts with what is there; --repair sets counts right, and never removes anything',
    wordCount: 0,
    options: { repair: 'switch' },
    async run(deps, args) {
      const repairs = args.isSet('repair')
      const report = await verifyStorage(deps, { repairs })
      if (repairs)
        await recordAudit(deps.db, deps.now(), {
          actor: 'operator',
          action: 'storage.repaired',
          subject: 'storage:all',
          details: { miscounted: report.miscounted.length },
        })
      const ok = report.damagedCount === 0 && (repairs || report.miscounted.length === 0)
      return { json: { ok, ...report } }
    },
  },
]
