import { strictEqual } from 'node:assert/strict'
import postgres from 'postgres'
import type { Suite } from '../suite.ts'

const FEW = 10_000
const MANY = 1_000_000

/** Fills an organization with applications, as one statement. */
async function fill(sql: postgres.Sql, organizationId: string, applications: number): Promise<void> {
  await sql`
    insert into applications (id, organization_id, name, slug, created_at, updated_at)
    select gen_random_uuid(), ${organizationId}, 'Application ' || n, 'application-' || n, now(), now()
    from generate_series(1, ${applications}::int) n`
}

/** Makes the owner of an organization a member of as many more. */
async function join(sql: postgres.Sql, organizationId: string, organizations: number): Promise<void> {
  await sql`
    with more as (
      insert into organizations (id, name, slug, created_at, updated_at)
      select gen_random_uuid(), 'Organization ' || n, 'organization-' || n, now(), now()
      from generate_series(1, ${organizations}::int) n
      returning id
    )
    insert into organization_members (id, organization_id, user_id, role, joined_at)
    select gen_random_uuid(), more.id, owner.user_id, 'OWNER', now()
    from more, organization_members owner where owner.organization_id = ${organizationId}`
}

/** Pages lie in the middle of their list, behind half of what it holds, unless it says otherwise. */
export const list: Suite = {
  name: 'list',
  work: `pages of 10 with \`total\`: of ${MANY} applications and ${FEW}, of ${MANY} organizations`,
  isLarge: true,
  async prepare(lab) {
    const platform = await lab.platform()
    const create = (name: string) => platform.call<{ id: string }>('POST', '/organizations', { name })
    const [few, many] = [await create('Few'), await create('Many')]
    const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
    try {
      await fill(sql, few.id, FEW)
      await fill(sql, many.id, MANY)
      await join(sql, few.id, MANY)
      for (const table of ['applications', 'organizations', 'organization_members'])
        await sql`vacuum analyze ${sql(table)}`
    } finally {
      await sql.end()
    }
    const middle = '80000000-0000-4000-8000-000000000000'
    const pathOf = (id: string) => `/applications?organizationId=${id}&from=${middle}`
    const ours = { origin: platform.apiOrigin, pid: platform.apiPid }
    return {
      load: {
        method: 'GET',
        path: pathOf(many.id),
        headers: async () => ({ authorization: `Bearer ${await platform.userToken()}` }),
        addressBlock: 22,
        connections: 64,
      },
      ours: { name: 'applications of a million', ...ours },
      peers: [
        { name: 'of ten thousand', ...ours, path: pathOf(few.id), aim: { cpuRatioMax: 1.5 } },
        { name: 'organizations, first page', ...ours, path: '/organizations', aim: {} },
        { name: 'organizations, in the middle', ...ours, path: `/organizations?from=${middle}`, aim: {} },
      ],
      async check(name, answer) {
        const { items, total } = (await answer.json()) as { items: unknown[]; total: number }
        strictEqual(items.length, 10)
        const more = name.startsWith('organizations') ? 2 : 0
        strictEqual(total, name === 'of ten thousand' ? FEW : MANY + more)
      },
    }
  },
}
