import { signingKeys } from '@platform/auth/signing-keys-table'
import { recordAudit } from '@platform/service/audit'
import type { Command } from '@platform/service/cli'
import { asc } from 'drizzle-orm'
import type { Deps } from '../deps.ts'
import { resealAuthenticators } from '../features/authenticator/authenticator.ts'
import { refreshKeys } from '../features/refresh/table.ts'

async function listKeys({ db }: Deps) {
  const signing = await db
    .select({
      id: signingKeys.kid,
      kekId: signingKeys.kekId,
      activatesAt: signingKeys.activatesAt,
      retiresAt: signingKeys.retiresAt,
    })
    .from(signingKeys)
    .orderBy(asc(signingKeys.activatesAt))
  const refresh = await db
    .select({
      id: refreshKeys.id,
      kekId: refreshKeys.kekId,
      activatesAt: refreshKeys.activatesAt,
      retiresAt: refreshKeys.retiresAt,
    })
    .from(refreshKeys)
    .orderBy(asc(refreshKeys.activatesAt))
  return [...signing.map((key) => ({ use: 'sign', ...key })), ...refresh.map((key) => ({ use: 'refresh', ...key }))]
}

export const keyCommands: readonly Command<Deps>[] = [
  {
    name: 'keys list',
    usage: 'keys list',
    summary: 'show signing keys and the keys of refresh tokens',
    async run(deps) {
      const keys = await listKeys(deps)
      const lines = keys.map(
        ({ use, id, kekId, activatesAt, retiresAt }) =>
          `${use.padEnd(7)}  ${id.padEnd(43)}  from ${activatesAt.toISOString()}  to ${retiresAt?.toISOString() ?? '-'}  sealed by ${kekId}`,
      )
      return { json: keys, text: lines.join('\n') }
    },
  },
  {
    name: 'keys rotate',
    usage: 'keys rotate [--emergency [--refresh-tokens]]',
    summary:
      'make the key that is due; with --emergency every process signs with a new one within 2 seconds and the old ones are withdrawn; --refresh-tokens ends every refresh token as well',
    options: { emergency: 'switch', 'refresh-tokens': 'switch' },
    async run(deps, args) {
      if (!args.isSet('emergency')) {
        await deps.keySet.maintain()
        await deps.refreshKeys.maintain()
        return { json: await listKeys(deps), text: 'What was due has been made; see keys list' }
      }
      const time = deps.now()
      const kid = await deps.keySet.rotateNow((tx, id) =>
        recordAudit(tx, time, { actor: 'operator', action: 'key.rotated', subject: `key:${id}` }),
      )
      const refreshKeyId = args.isSet('refresh-tokens')
        ? await deps.refreshKeys.rotateNow((tx, id) =>
            recordAudit(tx, time, { actor: 'operator', action: 'refresh_key.rotated', subject: `key:${id}` }),
          )
        : null
      return {
        json: { kid, refreshKeyId },
        text: [
          `Every process of this service signs with ${kid} within 2 seconds.`,
          'The API refuses the withdrawn keys at the first token of the new one, at the latest in 5 minutes.',
          'Verifiers that keep the JWKS as long as its Cache-Control lets them may accept a withdrawn key, and refuse the new one, for up to 15 minutes.',
        ].join('\n'),
      }
    },
  },
  {
    name: 'keys reencrypt',
    usage: 'keys reencrypt',
    summary: 'seal every key and every authenticator under the first of MASTER_KEYS; then the others may go',
    async run(deps) {
      const keys = (await deps.keySet.reencrypt()) + (await deps.refreshKeys.reencrypt())
      const authenticators = await resealAuthenticators(deps)
      await recordAudit(deps.db, deps.now(), {
        actor: 'operator',
        action: 'keys.reencrypted',
        subject: 'key:all',
        details: { keys, authenticators },
      })
      return {
        json: { reencrypted: keys + authenticators },
        text: `${keys} keys and ${authenticators} authenticators sealed anew`,
      }
    },
  },
]
