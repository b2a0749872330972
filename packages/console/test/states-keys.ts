import { randomUUID } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import type { TestPlatform } from '@platform/testing/platform'
import type { Locator, Page } from 'playwright-core'
import { apiKeys } from '../../../services/api/src/areas/credentials/api-keys/table.ts'
import { members } from '../../../services/api/src/areas/tenancy/organizations/table.ts'
import { profiles } from '../../../services/api/src/areas/tenancy/profiles/table.ts'
import type { Owner } from '../../../services/api/test/scenario.ts'

const DAY_MS = 86_400_000

/** The rows of keys and of an organization, for the tables of `states.chromium.test.ts`. */
interface Row {
  name: string
  path: (home: { organization: string; path: string }) => string
  reads: RegExp
  failures?: number
  ready: (page: Page) => Locator
}

const main = (page: Page) => page.getByRole('main')

export const keyScreens: Row[] = [
  {
    name: 'keys',
    path: ({ path }) => `${path}/keys`,
    reads: /\/api-keys\?/,
    ready: (page) => main(page).getByRole('cell', { name: /^Backups of the shop/ }),
  },
  {
    name: 'organization',
    path: ({ organization }) => `${organization}/~/organization`,
    reads: /\/organizations\/[^/]+\/(?:quotas|products)/,
    failures: 2,
    ready: (page) => main(page).getByRole('cell', { name: 'Stored objects, trash included' }),
  },
]

/** What is shown in its full state alone: the form reads nothing of its own. */
export const keyForms: Omit<Row, 'reads'>[] = [
  {
    name: 'new key',
    path: ({ path }) => `${path}/keys?new`,
    ready: (page) => main(page).getByRole('button', { name: 'Create key', exact: true }),
  },
]

/** Keys of every kind, and members of every role. */
export async function addKeys(
  { api, person }: TestPlatform,
  { owner: { person: owner, organizationId, applicationId } }: { owner: Owner },
): Promise<void> {
  const now = api.now()
  const after = (days: number): Date => new Date(now.getTime() + days * DAY_MS)
  const joined = (days: number) => ({ organizationId, joinedAt: after(-days) })
  const [admin, member] = [await person(), await person()]
  await api.db.insert(members).values([
    { ...joined(400), id: randomUUID(), userId: admin.userId, role: 'ADMIN' },
    { ...joined(300), id: randomUUID(), userId: member.userId, role: 'MEMBER' },
  ])
  await api.db.insert(profiles).values([
    {
      userId: admin.userId,
      email: 'grace.hopper@a-company-with-a-long-name.example',
      givenName: 'Grace',
      familyName: 'Hopper',
      learnedAt: now,
    },
    { userId: member.userId, email: 'ken@example.org', learnedAt: now },
  ])
  const deploying = ['network:deployments:trigger', 'network:deployments:read']
  const storage = ['network:storage:read', 'network:storage:write', 'network:storage:delete']
  const rows = [
    { name: 'CI', scopes: deploying, expiresAt: after(60), lastUsedAt: after(-1), createdByUserId: owner.userId },
    {
      name: 'Backups of the shop',
      scopes: storage,
      expiresAt: null,
      lastUsedAt: after(-3),
      createdByUserId: admin.userId,
    },
    {
      name: 'Search',
      scopes: ['network:ai_gateway:chat'],
      expiresAt: after(1),
      lastUsedAt: null,
      createdByUserId: owner.userId,
    },
    {
      name: 'The script of somebody who has left, which is called by a name as long as names of scripts can get',
      scopes: [...deploying, ...storage, 'network:env_vars:read', 'network:applications:read'],
      expiresAt: after(-40),
      lastUsedAt: after(-45),
      createdByUserId: randomUUID(),
    },
  ]
  await api.db.insert(apiKeys).values(
    rows.map((row) => ({
      ...row,
      id: newId(),
      applicationId,
      secretHash: Buffer.alloc(32),
      createdAt: after(-100),
      updatedAt: after(-100),
    })),
  )
}
