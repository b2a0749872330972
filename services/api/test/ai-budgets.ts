import type { TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { aiBudgetWindows } from '../src/areas/ai/governance/table.ts'
import type { Owner } from './scenario.ts'

/** A budget as a PUT takes it. */
export interface BudgetInput {
  applicationId?: string | null
  userId?: string | null
  period?: 'day' | 'month'
  maxCostMicros?: number | null
  maxRequests?: number | null
  maxTokens?: number | null
  maxRequestCostMicros?: number | null
  enabled?: boolean
}

/** A budget as it is answered. */
export interface ShownBudget extends Required<BudgetInput> {
  id: string
  source: 'organization' | 'operator'
  windowStart: string
  windowEnd: string
  spent: { costMicros: number; requests: number; tokens: number }
  held: { costMicros: number; requests: number; tokens: number }
}

const pathOf = ({ organizationId }: Pick<Owner, 'organizationId'>): string =>
  `/organizations/${organizationId}/ai-gateway/budgets`

/** Sets all budgets of an organization. */
export async function setBudgets(
  platform: TestPlatform,
  owner: Pick<Owner, 'organizationId' | 'token'>,
  budgets: readonly BudgetInput[],
): Promise<ShownBudget[]> {
  const { status, body, text } = await platform.call(owner.token, `PUT ${pathOf(owner)}`, budgets)
  if (status !== 200) throw new Error(`No budgets: ${text}`)
  return body.items as ShownBudget[]
}

/** The budgets of an organization, once what was answered is settled. */
export async function budgetsOf(
  platform: TestPlatform,
  owner: Pick<Owner, 'organizationId' | 'token'>,
): Promise<ShownBudget[]> {
  await platform.api.usage.flush()
  const { body } = await platform.call(owner.token, `GET ${pathOf(owner)}`)
  return body.items as ShownBudget[]
}

/** The windows of an organization, to the nano-dollar. */
export async function windowsOf(
  { api }: Pick<TestPlatform, 'api'>,
  { organizationId }: Pick<Owner, 'organizationId'>,
): Promise<(typeof aiBudgetWindows.$inferSelect)[]> {
  await api.usage.flush()
  return api.db
    .select()
    .from(aiBudgetWindows)
    .where(eq(aiBudgetWindows.organizationId, organizationId))
    .orderBy(aiBudgetWindows.id)
}
