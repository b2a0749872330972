import { batchPerTick } from '@platform/runtime/batch-per-tick'
import type { Db } from '@platform/runtime/database'
import { entriesMax } from '@platform/runtime/entries-max'
import { sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { deploymentFiles } from '../../deploy/artifacts/table.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { DeployedFile } from './deployed-file.ts'

/** How many deployments of an environment are searched, newest first. */
const DEPLOYMENTS_MAX = 10
const PATHS_MAX = 20_000
/** How long results are cached: the environment's deployments may change. */
const KNOWN_MS = 30_000

interface FileRow {
  n: number
  deployment_id: string
  path: string
  sha256: string
  bytes: string
  content_type: string
  last_modified: string
}

/** Finds a file with a hashed name that the current deployment lacks, in the environment's last ten kept deployments. */
export type FindEarlierFile = (environmentId: string, path: string) => Promise<DeployedFile | undefined>

/**
 * Finds files of earlier deployments, so that pages opened before a deployment keep working. Results, negative ones included, are
 * cached for 30 s; a flood of unknown names costs one statement per tick.
 */
export function openEarlierFiles(db: Db): FindEarlierFile {
  const known = new LRUCache<string, { file: DeployedFile | undefined }>({ ...entriesMax(PATHS_MAX), ttl: KNOWN_MS })

  const find = batchPerTick<{ environmentId: string; path: string }, DeployedFile>(async (keys) => {
    const wanted = keys.map(({ environmentId, path }, n) => ({ n, environment_id: environmentId, path }))
    const rows = await db.execute<FileRow & Record<string, unknown>>(sql`
      select distinct on (w.n) w.n, f.deployment_id, f.path, encode(f.sha256, 'hex') as sha256, f.bytes, f.content_type,
        coalesce(d.activated_at, d.created_at) as last_modified
      from json_to_recordset(${JSON.stringify(wanted)}::json) as w(n integer, environment_id uuid, path text)
      cross join lateral (
        select d.id, d.seq, d.activated_at, d.created_at from ${deployments} d
        where d.environment_id = w.environment_id and d.status = 'ACTIVE' and d.files_removed_at is null
        order by d.seq desc limit ${DEPLOYMENTS_MAX}
      ) d
      join ${deploymentFiles} f on f.deployment_id = d.id and f.path = w.path
      order by w.n, d.seq desc`)
    const files = Array.from<DeployedFile | undefined>({ length: keys.length })
    for (const row of rows)
      files[row.n] = new DeployedFile(
        {
          deploymentId: row.deployment_id,
          path: row.path,
          sha256: Buffer.from(row.sha256, 'hex'),
          bytes: Number(row.bytes),
          contentType: row.content_type,
        },
        new Date(row.last_modified),
      )
    return files
  })

  return async (environmentId, path) => {
    const key = `${environmentId}/${path}`
    const before = known.get(key)
    if (before) return before.file
    const file = await find({ environmentId, path })
    known.set(key, { file })
    return file
  }
}
