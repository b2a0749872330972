import { ok, strictEqual } from 'node:assert/strict'
import postgres from 'postgres'
import { openBucket } from '../storage.ts'
import type { Contender, Suite, Trial } from '../suite.ts'

const FEW = 100_000
const MANY = 10_000_000
const GROUPED = 1_000_000
const PAGE = 1_000
const DELIMITED = 10

/** Fills a bucket with objects of no bytes under `{prefix}00000001` and on, with its counts. first: of their ids. */
async function fill(
  sql: postgres.Sql,
  bucketId: string,
  { prefix, count, first }: { prefix: string; count: number; first: number },
): Promise<void> {
  const AT_ONCE = 1_000_000
  for (let from = 1; from <= count; from += AT_ONCE)
    await sql`
      insert into objects (id, bucket_id, key, content_type, content_length, etag, headers, metadata, tags, blob_count,
        uploaded_at, created_at, updated_at)
      select lpad(to_hex(${first}::bigint + n), 32, '0')::uuid, ${bucketId}, ${prefix} || lpad(n::text, 8, '0'),
        'application/octet-stream', 0, 'd41d8cd98f00b204e9800998ecf8427e', '{}', '{}', '{}', 0, now(), now(), now()
      from generate_series(${from}::int, ${Math.min(count, from + AT_ONCE - 1)}::int) n`
  await sql`
    insert into bucket_counts as c values (${bucketId}, 0, ${count}, 0, 0, 0)
    on conflict (bucket_id, shard) do update set objects = c.objects + excluded.objects`
}

/** Pages over /s3 by one client, out of the middle of a bucket, and what is done to all below a prefix. */
export const objectLists: Suite = {
  name: 'object-lists',
  work: `ListObjectsV2 over /s3: pages of ${PAGE} of ${MANY} objects, by one client`,
  isLarge: true,
  async prepare(lab) {
    const platform = await lab.platform()
    const { applicationId, credentials, origin, pid } = await openBucket(lab)
    const buckets = `/applications/${applicationId}/environments/production/buckets`
    const create = async (name: string) => (await platform.call<{ id: string }>('POST', buckets, { name })).id
    const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
    try {
      const contents = [
        ['few', 'k/', FEW],
        ['many', 'k/', MANY],
        ['bulk', 'k/', FEW],
        ['grouped', 'common/', GROUPED],
        ['ungrouped', 'common/', 1],
      ] as const
      let first = 0
      for (const [name, prefix, count] of contents) {
        const id = await create(name)
        await fill(sql, id, { prefix, count, first })
        first += count
        if (prefix !== 'common/') continue
        await fill(sql, id, { prefix: 'other-', count: DELIMITED, first })
        first += DELIMITED
      }
      await sql`vacuum analyze objects`
    } finally {
      await sql.end()
    }
    const listed = (name: string, path: string): Contender => ({ name, origin, pid, credentials, path: `/s3/${path}` })
    const page = (bucket: string, count: number) =>
      `${bucket}?list-type=2&max-keys=${PAGE}&prefix=k%2F&start-after=k%2F${String(count / 2).padStart(8, '0')}`
    const trash: Trial = {
      name: `trash ${FEW} below a prefix`,
      async measure() {
        const headers = { authorization: `Bearer ${await platform.userToken()}` }
        const startedAt = performance.now()
        const answer = await fetch(`${origin}${buckets}/bulk/objects?prefix=k%2F`, { method: 'DELETE', headers })
        const { trashedCount } = (await answer.json()) as { trashedCount: number }
        const p50Ms = performance.now() - startedAt
        strictEqual(trashedCount, FEW)
        await platform.call('POST', `${buckets}/bulk/trash/restore`, { prefix: 'k/' })
        return { perSecond: 1_000 / p50Ms, p50Ms }
      },
    }
    return {
      load: { method: 'GET', path: '', headers: async () => ({}), addressBlock: 52, connections: 1 },
      ours: listed(`of ${MANY}`, page('many', MANY)),
      peers: [
        { ...listed(`of ${FEW}`, page('few', FEW)), aim: { throughputRatioMin: 1 / 1.5 } },
        { ...listed(`delimiter, ${GROUPED} in one prefix`, 'grouped?delimiter=%2F&list-type=2'), aim: {} },
        { ...listed('delimiter, 1 in one prefix', 'ungrouped?delimiter=%2F&list-type=2'), aim: {} },
        { ...trash, aim: { p50MsMax: 2_000 } },
      ],
      async check(name, answer) {
        const xml = await answer.text()
        const count = name.startsWith('of') ? PAGE : DELIMITED + 1
        ok(xml.includes(`<KeyCount>${count}</KeyCount>`), `${name}: ${xml.slice(0, 500)}`)
      },
    }
  },
}
