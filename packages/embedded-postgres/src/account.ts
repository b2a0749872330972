import { spawnSync } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { PostgresRefused } from './postgres-refused.ts'

/** The account that owns the cluster and runs its server. undefined: the current user. */
export type Account = { uid: number; gid: number } | undefined

/**
 * Chooses the account that Postgres runs as. Postgres refuses to run as root, so root uses the owner of an existing cluster,
 * else `postgres`, else `nobody`; any other user runs it as themselves.
 *
 * Throws PostgresRefused if root finds none of these accounts.
 */
export async function chooseAccount(clusterFolder: string): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined
  const owner = await stat(clusterFolder).catch(() => undefined)
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  for (const name of ['postgres', 'nobody']) {
    const uid = askId('-u', name)
    const gid = askId('-g', name)
    if (uid && gid) return { uid, gid }
  }
  throw new PostgresRefused(
    'Postgres does not run as root and this machine has neither an account "postgres" nor "nobody": start as an ordinary user',
  )
}

function askId(flag: string, name: string): number | undefined {
  const answer = spawnSync('id', [flag, name], { encoding: 'utf8' })
  if (answer.status !== 0) return undefined
  // macOS writes nobody as -2 or as 4294967294; spawn wants a signed and chown an unsigned number.
  return Number(answer.stdout.trim()) | 0
}
