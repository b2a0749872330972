import { BadRequest, Conflict, NotFound } from '@platform/errors/api-error'
import { newId } from '@platform/runtime/new-id'
import { and, asc, eq, inArray, notInArray, sql } from 'drizzle-orm'
import type { UserActor } from '../../../../http/actor.ts'
import type { AiDeps } from '../../deps.ts'
import { applications } from '../../../tenancy/applications/table.ts'
import type { Organization } from '../../../tenancy/organizations/reach.ts'
import { members, organizations } from '../../../tenancy/organizations/table.ts'
import { microsOf } from '../micros.ts'
import { aiBudgets, type Period } from '../table.ts'
import { allowanceTarget } from './admit-call.ts'
import { isEntitled } from './entitlement.ts'
import { type BudgetTarget, type BudgetWindow, findWindows, openWindows, targetName, windowAt } from './windows.ts'

/** A limit as an organization sets it. */
export interface BudgetInput {
  applicationId: string | null
  userId: string | null
  period: Period
  maxCostMicros: number | null
  maxRequests: number | null
  maxTokens: number | null
  maxRequestCostMicros: number | null
  enabled: boolean
}

interface Amounts {
  costMicros: number
  requests: number
  tokens: number
}

interface ShownBudget extends BudgetInput {
  /** null: the operator's allowance. */
  id: string | null
  organizationId: string
  source: 'organization' | 'operator'
  windowStart: Date
  windowEnd: Date
  spent: Amounts
  held: Amounts
  createdAt: Date | null
  updatedAt: Date | null
}

type BudgetDeps = Pick<AiDeps, 'db' | 'now' | 'ai'>

const nothing: Amounts = { costMicros: 0, requests: 0, tokens: 0 }
const spentIn = (window: BudgetWindow): Amounts => ({
  costMicros: microsOf(window.spentCostNanos),
  requests: window.spentRequests,
  tokens: window.spentTokens,
})
const heldIn = (window: BudgetWindow): Amounts => ({
  costMicros: microsOf(window.heldCostNanos),
  requests: window.heldRequests,
  tokens: window.heldTokens,
})

const targetOf = ({ organizationId, applicationId, userId, period }: BudgetTarget | typeof aiBudgets.$inferSelect) => ({
  organizationId,
  applicationId,
  userId,
  period,
  isAllowance: false,
})

/**
 * Lists an organization's budgets with the amounts spent and held, and the operator's allowance if it has one (D90, D111).
 *
 * applicationId: lists only budgets that name this application; null: all.
 */
export async function listBudgets(
  deps: BudgetDeps,
  id: string,
  applicationId: string | null = null,
): Promise<ShownBudget[]> {
  const { db, now, ai } = deps
  const time = now()
  const [rows, hasAllowance] = await Promise.all([
    db
      .select()
      .from(aiBudgets)
      .where(
        and(
          eq(aiBudgets.organizationId, id),
          applicationId === null ? undefined : eq(aiBudgets.applicationId, applicationId),
        ),
      )
      .orderBy(asc(aiBudgets.createdAt), asc(aiBudgets.id)),
    ai.catalog.freeCostNanos === null || applicationId !== null
      ? false
      : isEntitled(deps, id).then((entitled) => !entitled),
  ])
  const allowance = hasAllowance ? allowanceTarget(id) : undefined
  const targets = [...rows.map((row): BudgetTarget => targetOf(row)), ...(allowance ? [allowance] : [])]
  const windows = await presentWindows(deps, id, targets, time)
  const amounts = (target: BudgetTarget) => {
    const window = windows.get(targetName(target))
    const { startsAt, endsAt } = windowAt(target.period, time)
    return {
      windowStart: startsAt,
      windowEnd: endsAt,
      spent: window ? spentIn(window) : nothing,
      held: window ? heldIn(window) : nothing,
    }
  }
  const own = rows.map((row): ShownBudget => ({ ...row, source: 'organization', ...amounts(targetOf(row)) }))
  if (!allowance) return own
  const shownAllowance: ShownBudget = {
    id: null,
    organizationId: id,
    applicationId: null,
    userId: null,
    period: allowance.period,
    maxCostMicros: microsOf(ai.catalog.freeCostNanos ?? 0n),
    maxRequests: null,
    maxTokens: null,
    maxRequestCostMicros: null,
    enabled: true,
    source: 'operator',
    ...amounts(allowance),
    createdAt: null,
    updatedAt: null,
  }
  return [...own, shownAllowance]
}

/** Returns the current windows of these targets, and creates the missing ones. */
async function presentWindows(
  deps: BudgetDeps,
  organizationId: string,
  targets: readonly BudgetTarget[],
  time: Date,
): Promise<Map<string, BudgetWindow>> {
  if (targets.length === 0) return new Map()
  const windows = await findWindows(deps, organizationId, time)
  const missing = targets.filter((target) => !windows.has(targetName(target)))
  if (missing.length === 0) return windows
  await openWindows(deps, missing, time)
  return findWindows(deps, organizationId, time)
}

/**
 * Replaces all budgets of an organization. A budget with the same target and period as before keeps its identity, and spent amounts
 * stay spent. Logs the change. Safe to repeat.
 *
 * Throws Conflict for two budgets of one target and period, NotFound for somebody else's application, BadRequest for a user who is
 * not a member.
 */
export async function replaceBudgets(
  deps: BudgetDeps & Pick<AiDeps, 'logger'>,
  by: UserActor,
  organization: Pick<Organization, 'id'>,
  budgets: readonly BudgetInput[],
): Promise<ShownBudget[]> {
  const { db, now, logger } = deps
  const { id: organizationId } = organization
  const time = now()
  const targets = budgets.map((budget) => targetOf({ ...budget, organizationId, isAllowance: false }))
  await db.transaction(async (tx) => {
    // Of two concurrent replacements the second sees the result of the first.
    await tx
      .select({ id: organizations.id })
      .from(organizations)
      .where(eq(organizations.id, organizationId))
      .for('no key update')
    await requireOwn(tx, organizationId, budgets)
    if (new Set(targets.map(targetName)).size < targets.length)
      throw new Conflict('Two budgets have the same application, user and period')
    const kept: string[] = []
    for (const budget of budgets) {
      const [row] = await tx
        .insert(aiBudgets)
        .values({ ...budget, id: newId(), organizationId, createdAt: time, updatedAt: time })
        .onConflictDoUpdate({
          target: [aiBudgets.organizationId, aiBudgets.applicationId, aiBudgets.userId, aiBudgets.period],
          set: { ...budget, updatedAt: time },
        })
        .returning({ id: aiBudgets.id })
      if (row) kept.push(row.id)
    }
    await tx
      .delete(aiBudgets)
      .where(
        and(eq(aiBudgets.organizationId, organizationId), kept.length > 0 ? notInArray(aiBudgets.id, kept) : sql`true`),
      )
  })
  logger.info({ organizationId, userId: by.userId, budgets: budgets.length }, 'AI budgets replaced')
  return listBudgets(deps, organizationId)
}

/** Throws for a budget of an application or a user that the organization does not have. */
async function requireOwn(
  db: Pick<AiDeps['db'], 'select'>,
  organizationId: string,
  budgets: readonly BudgetInput[],
): Promise<void> {
  const applicationIds = [...new Set(budgets.flatMap(({ applicationId }) => applicationId ?? []))]
  const userIds = [...new Set(budgets.flatMap(({ userId }) => userId ?? []))]
  const [ofOrganization, ofMembers] = await Promise.all([
    applicationIds.length === 0
      ? []
      : db
          .select({ id: applications.id })
          .from(applications)
          .where(and(eq(applications.organizationId, organizationId), inArray(applications.id, applicationIds))),
    userIds.length === 0
      ? []
      : db
          .select({ id: members.userId })
          .from(members)
          .where(and(eq(members.organizationId, organizationId), inArray(members.userId, userIds)))
          // Users who left keep their budgets: otherwise a client could not send back the response of GET.
          .union(
            db
              .select({ id: sql<string>`${aiBudgets.userId}` })
              .from(aiBudgets)
              .where(and(eq(aiBudgets.organizationId, organizationId), inArray(aiBudgets.userId, userIds))),
          ),
  ])
  if (ofOrganization.length < applicationIds.length) throw new NotFound('Application')
  const stranger = userIds.find((userId) => !ofMembers.some(({ id }) => id === userId))
  if (stranger !== undefined) throw new BadRequest(`The user ${stranger} is no member of the organization`)
}
