import { setBillingCap } from '../products/products.ts'
import { setQuota } from '../products/quotas.ts'
import { quotaNames } from '../products/registry.ts'
import { onOrganization, readAmount, readOneOf } from './arguments.ts'

const MICROS_PER_CENT = 10_000

export const quotaCommands = [
  onOrganization(
    {
      name: 'quota set',
      action: 'quota.set',
      usage: 'quota set <organizationId> <quota> <limit>',
      summary: 'allow more or less than the plan; the limit `plan` goes back to it',
      wordCount: 3,
    },
    async (deps, organizationId, [name, amount]) => {
      const [quota, limit] = [readOneOf(quotaNames, 'quota', name), readAmount(amount, 'plan')]
      await setQuota(deps, organizationId, quota, limit)
      return { quota, limit }
    },
  ),
  onOrganization(
    {
      name: 'billing cap',
      action: 'billing.capped',
      usage: 'billing cap <organizationId> <cents>',
      summary: 'the most to bill in a month, in US cents; `none` lifts the cap',
      wordCount: 2,
    },
    async (deps, organizationId, [amount]) => {
      const cents = readAmount(amount, 'none')
      const capMicros = cents === null ? null : cents * MICROS_PER_CENT
      await setBillingCap(deps, organizationId, capMicros)
      return { capMicros }
    },
  ),
]
