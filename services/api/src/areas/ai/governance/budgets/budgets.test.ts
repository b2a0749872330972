// engines: postgres
import { randomUUID } from 'node:crypto'
import { AI_USAGE_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { holding } from '@platform/testkit/holding'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import type { TransactionSql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { askAi } from '../../../../../test/ai-asks.ts'
import { type BudgetInput, budgetsOf, setBudgets, type ShownBudget, windowsOf } from '../../../../../test/ai-budgets.ts'
import { chatOf, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { newKey, newOwner, type Owner } from '../../../../../test/scenario.ts'
import { setMember } from '../../../tenancy/organizations/members.ts'
import { members } from '../../../tenancy/organizations/table.ts'
import { openWindows } from './windows.ts'

const FREE_MICROS = 250_000
const scope = ['network:ai_gateway:budgets']

let platform: TestPlatform
let owner: Owner
const lines: string[] = []
beforeAll(async () => {
  platform = await startPlatform({
    aiProviders: { freeCostMicros: FREE_MICROS, providers: [], models: [] },
    onLogLine: (line) => void lines.push(line),
  })
})
afterAll(() => platform.close())
beforeEach(async () => {
  // An entitled organization, which the operator's allowance does not apply to: only its own budgets count.
  owner = await newEntitledOwner(platform)
})

const pathOf = ({ organizationId }: Owner) => `/organizations/${organizationId}/ai-gateway/budgets`
const put = (body: unknown, token = owner.token) => platform.call(token, `PUT ${pathOf(owner)}`, body)
const get = (token = owner.token) => platform.call(token, `GET ${pathOf(owner)}`)
const itemsOf = ({ body }: Awaited<ReturnType<typeof get>>) => (body as { items: ShownBudget[] }).items
const echo = (headers: Record<string, string> = {}) =>
  askAi(platform, owner.token, '/chat/completions', chatOf('local/echo'), headers)

describe('budgets', () => {
  test('are none until some are set, and show what they limit, when, and how much of it is gone', async () => {
    expect(await get()).toMatchObject({ status: 200, body: { items: [] } })
    const time = platform.clock.now()
    const { organizationId } = owner
    const set = await put([{ maxCostMicros: 5_000_000 }])
    const nothing = { costMicros: 0, requests: 0, tokens: 0 }
    expect(set.status).toBe(200)
    expect(set.body).toEqual({
      items: [
        {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
          organizationId,
          applicationId: null,
          userId: null,
          period: 'month',
          maxCostMicros: 5_000_000,
          maxRequests: null,
          maxTokens: null,
          maxRequestCostMicros: null,
          enabled: true,
          source: 'organization',
          windowStart: new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth())).toISOString(),
          windowEnd: new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1)).toISOString(),
          spent: nothing,
          held: nothing,
          createdAt: expect.any(String) as string,
          updatedAt: expect.any(String) as string,
        },
      ],
      warnings: [],
    })
    expect((await get()).body).toEqual({ items: itemsOf(set) })
  })

  test.each([
    ['an array', (budgets: unknown) => budgets],
    ['in budgets', (budgets: unknown) => ({ budgets })],
    ['in items', (items: unknown) => ({ items })],
  ])('are taken as %s', async (_, wrapped) => {
    const { applicationId } = owner
    const budgets = [
      { maxRequests: 0, period: 'day', enabled: false },
      { applicationId, userId: owner.person.userId, maxTokens: Number.MAX_SAFE_INTEGER, maxRequestCostMicros: null },
    ]
    expect(itemsOf(await put(wrapped(budgets)))).toMatchObject([
      { ...budgets[0], applicationId: null },
      { ...budgets[1], period: 'month', enabled: true },
    ])
    expect(itemsOf(await put(wrapped([])))).toEqual([])
  })

  test('can be sent back as they were answered, and stay the same ones', async () => {
    const first = await setBudgets(platform, owner, [
      { maxCostMicros: 100, maxRequests: 7 },
      { applicationId: owner.applicationId, maxTokens: 5, period: 'day', enabled: false },
    ])
    const { body } = await get()
    const again = await put(body)
    expect(again.status).toBe(200)
    expect(itemsOf(again)).toEqual(first.map((item) => ({ ...item, updatedAt: expect.any(String) as string })))
  })

  test('of a target and period are the same one when their maxima change; others go, and come back as new ones', async () => {
    const [daily, monthly] = await setBudgets(platform, owner, [
      { maxRequests: 1, period: 'day' },
      { maxRequests: 1, period: 'month' },
    ])
    const changed = await setBudgets(platform, owner, [{ maxTokens: 9, period: 'month', enabled: false }])
    expect(changed).toMatchObject([
      {
        id: monthly?.id,
        maxRequests: null,
        maxTokens: 9,
        enabled: false,
        createdAt: (monthly as unknown as { createdAt: string }).createdAt,
      },
    ])
    const [back] = await setBudgets(platform, owner, [{ maxRequests: 1, period: 'day' }])
    expect(back?.id).not.toBe(daily?.id)
  })

  test.each<[string, unknown]>([
    ['no maximum', [{}]],
    ['only maxima that are null', [{ maxCostMicros: null, maxTokens: null }]],
    ['a negative maximum', [{ maxRequests: -1 }]],
    ['a fraction', [{ maxTokens: 1.5 }]],
    ['more than a number can tell', [{ maxCostMicros: Number.MAX_SAFE_INTEGER + 1 }]],
    ['a maximum that is a text', [{ maxRequestCostMicros: '5' }]],
    ['another period', [{ maxRequests: 1, period: 'week' }]],
    ['a period that is null', [{ maxRequests: 1, period: null }]],
    ['a member that there is not', [{ maxRequests: 1, maxCost: 1 }]],
    ['an application that is no id', [{ maxRequests: 1, applicationId: 'shop' }]],
    ['a user that is no text', [{ maxRequests: 1, userId: 7 }]],
    ['a user with a NUL', [{ maxRequests: 1, userId: 'a\0b' }]],
    ['101 of them', Array.from({ length: 101 }, () => ({ maxRequests: 1 }))],
    ['two lists', { budgets: [], items: [] }],
    ['no list', {}],
    ['a text', 'none'],
    ['null', null],
  ])('are refused with %s, and nothing changes', async (_, body) => {
    const before = await setBudgets(platform, owner, [{ maxRequests: 3 }])
    expect((await put(body)).status).toBe(422)
    expect(itemsOf(await get())).toEqual(before)
  })

  test('are refused with the place of what is wrong, and with what was expected there', async () => {
    const many = Array.from({ length: 500 }, () => ({ maxRequests: 1 }))
    const wrong: [body: unknown, property: string, expected: unknown, found: unknown][] = [
      [[{ maxCostMicros: '5' }], '/0/maxCostMicros', 'number', '5'],
      [[{ maxRequests: 1 }, { maxTokens: 1.5 }], '/1/maxTokens', 'int', 1.5],
      [[{ maxRequests: 1, period: 'week' }], '/0/period', ['day', 'month'], 'week'],
      [[{ maxRequests: -1 }], '/0/maxRequests', { minimum: 0 }, -1],
      [{ budgets: [{ maxCostMicros: '5' }] }, '/budgets/0/maxCostMicros', 'number', '5'],
      [{ items: [{ enabled: 'yes', maxRequests: 1 }] }, '/items/0/enabled', 'boolean', 'yes'],
      [{ items: 5 }, '/items', 'array', 5],
      [[7], '/0', 'object', 7],
      [many, '', { maximum: 100 }, expect.anything()],
      [{ budgets: many }, '/budgets', { maximum: 100 }, expect.anything()],
      [{ budgets: [], items: [] }, '/items', 'no such member', []],
      [{}, '/budgets', 'array', null],
    ]
    for (const [body, property, expected, found] of wrong) {
      const answer = await put(body)
      expect(answer).toMatchObject({ status: 422, body: { on: 'body', property, expected, found } })
      expect((answer.body as { message: string }).message).toMatch(new RegExp(`^${property || 'The value'}: .`))
    }
  })

  test('are at most a hundred, of as many targets', async () => {
    const people = await Promise.all(Array.from({ length: 49 }, () => platform.person()))
    for (const { userId } of people) await setMember(platform.api, owner.organizationId, userId, 'MEMBER')
    const budgets = [null, ...people.map(({ userId }) => userId)].flatMap((userId): BudgetInput[] => [
      { userId, period: 'day', maxRequests: 1 },
      { userId, period: 'month', maxRequests: 1 },
    ])
    expect(await setBudgets(platform, owner, budgets)).toMatchObject(budgets)
  })

  test('are refused where two are of one target and period, or one is of somebody else', async () => {
    const stranger = await newOwner(platform)
    // Another organization of the same owner has applications of its own.
    const second = await newOwner(platform, owner.person)
    const { applicationId } = owner
    const before = await setBudgets(platform, owner, [{ maxRequests: 3 }])
    const statusOf = async (...budgets: BudgetInput[]) => (await put(budgets)).status
    expect(await statusOf({ maxRequests: 1 }, { maxTokens: 1, period: 'month', enabled: false })).toBe(409)
    expect(
      await statusOf({ applicationId, maxRequests: 1 }, { applicationId: applicationId.toUpperCase(), maxTokens: 1 }),
    ).toBe(409)
    for (const other of [stranger.applicationId, second.applicationId, randomUUID()])
      expect(await put([{ applicationId: other, maxRequests: 1 }])).toMatchObject({
        status: 404,
        body: { error: 'Application not found' },
      })
    for (const userId of [stranger.person.userId, randomUUID(), 'nobody', ''])
      expect(await statusOf({ userId, maxRequests: 1 })).toBe(400)
    expect(itemsOf(await get())).toEqual(before)
  })

  test('of its own application are what a key reads, with what is spent, and no others', async () => {
    const { applicationId } = owner
    const second = await platform.call(owner.token, 'POST /applications', {
      organizationId: owner.organizationId,
      name: 'Second',
    })
    const own = [
      { applicationId, maxRequests: 5 },
      { applicationId, userId: owner.person.userId, maxTokens: 7 },
    ]
    await setBudgets(platform, owner, [{ maxRequests: 3 }, ...own, { applicationId: second.body.id, maxRequests: 1 }])
    const all = itemsOf(await get())
    const { token } = await newKey(platform, owner, scope)
    expect(itemsOf(await get(token))).toEqual(all.filter((budget) => budget.applicationId === applicationId))
    expect(itemsOf(await get(token))).toMatchObject(own)

    // The operator's allowance is of the organization.
    const free = await newOwner(platform)
    const key = await newKey(platform, free, scope)
    const ofFree = (token: string) => platform.call(token, `GET ${pathOf(free)}`)
    expect(itemsOf(await ofFree(free.token))).toMatchObject([{ source: 'operator' }])
    expect(await ofFree(key.token)).toMatchObject({ status: 200, body: { items: [] } })

    expect(await ofFree(token)).toMatchObject({ status: 403, body: { error: 'Access denied' } })
    expect(await platform.call(token, `GET ${pathOf({ ...owner, organizationId: randomUUID() })}`)).toMatchObject({
      status: 404,
      body: { error: 'Organization not found' },
    })
  })

  test('are seen by members and keys, and set by owners and admins alone', async () => {
    const stranger = await newOwner(platform)
    const [member, admin] = await Promise.all([platform.person(), platform.person()])
    await setMember(platform.api, owner.organizationId, member.userId, 'MEMBER')
    await setMember(platform.api, owner.organizationId, admin.userId, 'ADMIN')
    await setBudgets(platform, owner, [{ maxRequests: 3 }])
    const { token: ofKey } = await newKey(platform, owner, scope)
    const askers = [
      [await member.token(scope), 200, 403],
      [await admin.token(scope), 200, 200],
      [ofKey, 200, 403],
      [stranger.token, 404, 404],
      [await owner.person.token(everyScope.filter((each) => each !== scope[0])), 403, 403],
      ['nonsense', 401, 401],
    ] as const
    for (const [token, seen, set] of askers)
      expect([(await get(token)).status, (await put([{ maxRequests: 3 }], token)).status]).toEqual([seen, set])
    expect(itemsOf(await get())).toMatchObject([{ maxRequests: 3 }])
  })

  test('that are set at the same time follow each other: the last set is all there is', async () => {
    const { organizationId, applicationId } = owner
    await setBudgets(platform, owner, [{ maxRequests: 1 }])
    const sets: BudgetInput[][] = [
      [{ applicationId, maxRequests: 2 }],
      [{ userId: owner.person.userId, maxRequests: 3, period: 'day' }],
    ]
    // Both replace the budget that is held. They have no target in common, where one would wait for the other anyway.
    const [first, second] = await holding(
      platform.databaseUrl,
      (sql) => sql`select from ai_budgets where organization_id = ${organizationId} for update`,
      [() => put(sets[0]), () => put(sets[1])],
    )
    expect([first.status, second.status]).toEqual([200, 200])
    expect(itemsOf(await get())).toMatchObject(sets[1] ?? [])
  })

  test('of a user who has left stay, so that the set can be sent back; nobody new is taken', async () => {
    const [leaver, stranger] = await Promise.all([platform.person(), platform.person()])
    await setMember(platform.api, owner.organizationId, leaver.userId, 'MEMBER')
    await setBudgets(platform, owner, [{ userId: leaver.userId, maxRequests: 1 }])
    await platform.api.db.delete(members).where(eq(members.userId, leaver.userId))
    const { body } = await get()
    expect(await put(body)).toMatchObject({ status: 200, body: { items: [{ userId: leaver.userId, maxRequests: 1 }] } })
    expect((await put([{ userId: stranger.userId, maxRequests: 1 }])).status).toBe(400)
    // A foreign application is reported before two budgets of one target (D18).
    const { applicationId } = await newOwner(platform)
    expect(
      (
        await put([
          { applicationId, maxRequests: 1 },
          { applicationId, maxRequests: 2 },
        ])
      ).status,
    ).toBe(404)
  })

  test('are a line of the log when they change', async () => {
    lines.length = 0
    await setBudgets(platform, owner, [{ maxRequests: 1 }])
    expect(lines.map((line) => JSON.parse(line) as { msg?: string })).toContainEqual(
      expect.objectContaining({
        msg: 'AI budgets replaced',
        organizationId: owner.organizationId,
        userId: owner.person.userId,
        budgets: 1,
      }) as object,
    )
  })
})

describe('what is spent', () => {
  test('is of the target, and is not forgotten with its budget', async () => {
    const { applicationId } = owner
    const { userId } = owner.person
    await echo()
    await echo({ 'x-application-id': applicationId })
    await platform.api.usage.flush()
    const budgets: BudgetInput[] = [
      { maxRequests: 100 },
      { applicationId, maxRequests: 100, period: 'day' },
      { userId, maxRequests: 100 },
    ]
    const requestsOf = (items: readonly ShownBudget[]) => items.map(({ spent }) => spent.requests)
    const set = await setBudgets(platform, owner, budgets)
    expect(requestsOf(set)).toEqual([2, 1, 2])
    expect(set.every(({ spent }) => spent.tokens > 0 && spent.costMicros === 0)).toBe(true)
    await setBudgets(platform, owner, [])
    await echo({ 'x-application-id': applicationId })
    await platform.api.usage.flush()
    expect(requestsOf(await setBudgets(platform, owner, budgets))).toEqual([3, 2, 3])
  })

  test('contains a call whose usage is committed while the window opens', async () => {
    await echo()
    await platform.api.usage.flush()
    const { organizationId } = owner
    // The transaction that counts usage takes the lock, as the trigger of the usage events does.
    const count = async (tx: TransactionSql) => {
      await tx`select pg_advisory_xact_lock_shared(${AI_USAGE_LOCK_CLASS}, ai_usage_lock(${organizationId}))`
      await tx`update ai_usage_sums set counted_requests = counted_requests + 1 where organization_id = ${organizationId}`
    }
    const target = { organizationId, applicationId: null, userId: null, period: 'month', isAllowance: false } as const
    const open = async () => {
      await openWindows(platform.api, [target], platform.clock.now())
      // Waits here if the window did not: then the test fails by the window's sums.
      await platform.api.db.execute(
        sql`select pg_advisory_xact_lock(${AI_USAGE_LOCK_CLASS}, ai_usage_lock(${organizationId}))`,
      )
    }
    await holding(platform.databaseUrl, count, [open])
    expect(await windowsOf(platform, owner)).toMatchObject([{ spentRequests: 2 }])
  })

  test('is shown in micro-dollars, rounded up', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 1 }])
    const shown = async (nanos: string) => {
      await platform.api.db.execute(
        `update ai_budget_windows set spent_cost_nanos = ${nanos}, held_cost_nanos = 1 where organization_id = '${owner.organizationId}'`,
      )
      const [budget] = await budgetsOf(platform, owner)
      return [budget?.spent.costMicros, budget?.held.costMicros]
    }
    expect(await shown('1000')).toEqual([1, 1])
    expect(await shown('1001')).toEqual([2, 1])
    expect(await shown('0')).toEqual([0, 1])
  })

  test('begins anew with each UTC day and month, with whoever looks first', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 100, period: 'day' }, { maxRequests: 100 }])
    await echo()
    const [day, month] = await budgetsOf(platform, owner)
    expect([day?.spent.requests, month?.spent.requests]).toEqual([1, 1])
    platform.clock.advance(Date.parse(month?.windowEnd ?? '') - platform.clock.now().getTime() + 1_000)
    owner = { ...owner, token: await owner.person.token(scope) }
    const next = await budgetsOf(platform, owner)
    expect(next.map(({ windowStart, spent }) => [windowStart, spent.requests])).toEqual([
      [month?.windowEnd, 0],
      [month?.windowEnd, 0],
    ])
    expect(await windowsOf(platform, owner)).toHaveLength(4)
  })
})

describe('the operator’s allowance', () => {
  test('is one more item, which nobody can change, and which PUT passes over', async () => {
    owner = await newOwner(platform)
    const ofOperator = {
      source: 'operator',
      maxCostMicros: FREE_MICROS,
      period: 'month',
      enabled: true,
      applicationId: null,
    }
    expect(itemsOf(await get())).toMatchObject([ofOperator])
    await setBudgets(platform, owner, [{ maxRequests: 3 }])
    const all = await get()
    expect(itemsOf(all)).toMatchObject([{ source: 'organization', maxRequests: 3 }, ofOperator])
    const more = itemsOf(all).map((item) => ({ ...item, maxCostMicros: 9_999_999 }))
    expect(itemsOf(await put({ items: more }))).toMatchObject([
      { source: 'organization', maxCostMicros: 9_999_999 },
      ofOperator,
    ])
    expect(itemsOf(await put([]))).toMatchObject([ofOperator])
  })
})
