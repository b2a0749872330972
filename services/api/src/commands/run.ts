import { argv, env, exit, stderr, stdout } from 'node:process'
import { parseArgs } from 'node:util'
import { ConfigError } from '@platform/runtime/config'
import { isForeignKeyViolation } from '@platform/runtime/database'
import { isUuid } from '@platform/runtime/is-uuid'
import { startupFailure } from '@platform/service/startup-failure'
import { compose, migrate } from '../compose.ts'
import { loadConfig } from '../config.ts'
import type { Deps } from '../deps.ts'
import { resealSigningStates } from '../features/api-keys/api-keys.ts'
import { resealVariables } from '../features/env-vars/env-vars.ts'
import { verifyStorage } from '../features/storage/verify-storage.ts'
import { setMember } from '../features/organizations/members.ts'
import { activatePlan, setBillingCap, setEntitlement } from '../features/products/products.ts'
import { setQuota } from '../features/products/quotas.ts'
import {
  isPlan,
  isProduct,
  type PlanSlug,
  type ProductSlug,
  type Quota,
  quotaNames,
} from '../features/products/registry.ts'

const help = `Usage: node src/cli.ts <command> [arguments]

  migrate                                        bring the database to the schema of this release

  member set <organizationId> <userId> <role>    make a user OWNER, ADMIN or MEMBER of an organization
  product grant <organizationId> <product>       give access, whatever the product's default
  product suspend <organizationId> <product>     take it away for a time
  product revoke <organizationId> <product>      take it away
  plan activate <organizationId> <product> <plan>
  quota set <organizationId> <quota> <limit>     allow more or less than the plan; the limit \`plan\` goes back to it
  billing cap <organizationId> <cents>           the most to bill in a month, in US cents; \`none\` lifts the cap

  storage verify [--repair]                      read all bytes against their checksums, compare counts with what is there;
                                                 --repair sets counts right, and never removes anything

  keys list                                      the signing keys
  keys rotate                                    a new signing key, for one that leaked: within 2 seconds every process signs
                                                 with it and refuses the tokens of the others
  keys reencrypt                                 seal everything that is sealed under the first of MASTER_KEYS

Products are network, storage and ai-gateway; plans are free and pro; quotas are ${quotaNames.join(', ')}.
Configured by the environment of the service.
Prints a line of JSON. Exit codes: 0 done, 1 failed, 2 not a command.
`

const MICROS_PER_CENT = 10_000
const roles = ['OWNER', 'ADMIN', 'MEMBER'] as const
type Role = (typeof roles)[number]

function readId(text = ''): string {
  if (isUuid(text)) return text
  throw new ConfigError(`${text || 'Nothing'} is not a UUID`)
}
function readProduct(text = ''): ProductSlug {
  if (isProduct(text)) return text
  throw new ConfigError(`There is no product ${text}`)
}
function readPlan(text = ''): PlanSlug {
  if (isPlan(text)) return text
  throw new ConfigError(`There is no plan ${text}`)
}
function readRole(text = ''): Role {
  const role = roles.find((name) => name === text)
  if (role) return role
  throw new ConfigError(`There is no role ${text}; choose one of ${roles.join(', ')}`)
}

function readQuota(text = ''): Quota {
  const quota = quotaNames.find((name) => name === text)
  if (quota) return quota
  throw new ConfigError(`There is no quota ${text}; choose one of ${quotaNames.join(', ')}`)
}
/** A whole number from 0, or null for the word that takes a decision back. */
function readAmount(text = '', none = ''): number | null {
  if (text === none) return null
  if (/^\d{1,12}$/.test(text)) return Number(text)
  throw new ConfigError(`${text || 'Nothing'} is neither a whole number nor ${none}`)
}

interface Options {
  isRepaired: boolean
}
type Command = (deps: Deps, given: readonly string[], options: Options) => Promise<object>

const entitle =
  (status: 'ACTIVE' | 'SUSPENDED' | 'REVOKED'): Command =>
  async (deps, [organization, product]) => {
    await setEntitlement(deps, readId(organization), readProduct(product), status)
    return { organizationId: organization, product, status }
  }

const commands: Record<string, { takes: number; run: Command }> = {
  'member set': {
    takes: 3,
    async run(deps, [organization, userId = '', role]) {
      await setMember(deps, readId(organization), userId, readRole(role))
      return { organizationId: organization, userId, role }
    },
  },
  'product grant': { takes: 2, run: entitle('ACTIVE') },
  'product suspend': { takes: 2, run: entitle('SUSPENDED') },
  'product revoke': { takes: 2, run: entitle('REVOKED') },
  'plan activate': {
    takes: 3,
    async run(deps, [organization, product, plan]) {
      await activatePlan(deps, readId(organization), readProduct(product), readPlan(plan))
      return { organizationId: organization, product, plan }
    },
  },
  'quota set': {
    takes: 3,
    async run(deps, [organization, name, given]) {
      const [quota, limit] = [readQuota(name), readAmount(given, 'plan')]
      await setQuota(deps, readId(organization), quota, limit)
      return { organizationId: organization, quota, limit }
    },
  },
  'storage verify': {
    takes: 0,
    async run(deps, _, { isRepaired }) {
      const report = await verifyStorage(deps, { isRepaired })
      return { ok: report.damagedCount === 0 && (isRepaired || report.miscounted.length === 0), ...report }
    },
  },
  'billing cap': {
    takes: 2,
    async run(deps, [organization, given]) {
      const cents = readAmount(given, 'none')
      const capMicros = cents === null ? null : cents * MICROS_PER_CENT
      await setBillingCap(deps, readId(organization), capMicros)
      return { organizationId: organization, capMicros }
    },
  },
  'keys list': { takes: 0, run: async ({ keySet }) => keySet.jwks() },
  'keys rotate': {
    takes: 0,
    run: async ({ keySet }) => ({
      kid: await keySet.rotateNow(),
      note: 'Within 2 seconds every process signs with this key and refuses the tokens of the others.',
    }),
  },
  'keys reencrypt': {
    takes: 0,
    async run(deps) {
      const signingKeys = await deps.keySet.reencrypt()
      return { signingKeys, variables: await resealVariables(deps), apiKeys: await resealSigningStates(deps) }
    },
  },
}

async function run({ name, given, options }: Asked): Promise<object> {
  const config = loadConfig(env)
  if (name === 'migrate') {
    await migrate(config)
    return { migrated: true }
  }
  const { deps, close } = await compose(config)
  try {
    return (await commands[name]?.run(deps, given, options)) ?? {}
  } catch (error) {
    if (isForeignKeyViolation(error)) throw new ConfigError('There is no such organization')
    throw error
  } finally {
    await close()
  }
}

interface Asked {
  name: string
  given: string[]
  options: Options
}

function readArguments(): Asked | undefined {
  const { positionals, values } = parseArgs({
    args: argv.slice(2),
    allowPositionals: true,
    options: { repair: { type: 'boolean' } },
  })
  const [first = '', second = '', ...given] = positionals
  const name = `${first} ${second}`.trim()
  const options = { isRepaired: values.repair ?? false }
  if (options.isRepaired && name !== 'storage verify') return undefined
  if (name === 'migrate') return { name, given, options }
  return commands[name]?.takes === given.length ? { name, given, options } : undefined
}

if (argv.includes('--help')) {
  stdout.write(help)
  exit(0)
}
let asked: ReturnType<typeof readArguments>
try {
  asked = readArguments()
} catch {
  asked = undefined // an option that there is none of
}
if (!asked) {
  stderr.write(help)
  exit(2)
}
try {
  stdout.write(`${JSON.stringify(await run(asked))}\n`)
} catch (error) {
  stderr.write(`${startupFailure(error)}\n`)
  exit(1)
}
