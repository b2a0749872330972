import { ConfigError } from '@platform/runtime/config'
import { isForeignKeyViolation } from '@platform/runtime/database'
import { isUuid } from '@platform/runtime/is-uuid'
import { recordAudit } from '@platform/service/audit'
import type { Arguments, Command } from '@platform/service/cli'
import type { TenancyDeps } from '../deps.ts'
import { isProduct, type ProductSlug } from '../products/registry.ts'

export function readProduct(text = ''): ProductSlug {
  if (isProduct(text)) return text
  throw new ConfigError(`There is no product ${text}`)
}

/** Parses one of a list of names. Throws ConfigError that lists the valid ones. */
export function readOneOf<T extends string>(names: readonly T[], what: string, text = ''): T {
  const name = names.find((each) => each === text)
  if (name) return name
  throw new ConfigError(`There is no ${what} ${text}; choose one of ${names.join(', ')}`)
}

/** Parses a whole number from 0, or returns null for the word that resets the setting. */
export function readAmount(text = '', none = ''): number | null {
  if (text === none) return null
  if (/^\d{1,12}$/.test(text)) return Number(text)
  throw new ConfigError(`${text || 'Nothing'} is neither a whole number nor ${none}`)
}

interface OrganizationCommand extends Omit<Command<TenancyDeps>, 'run'> {
  /** Type of the audit event; undefined for a command that changes nothing. */
  action?: string
}

/**
 * Builds a command on an organization, whose id is its first argument. `run` gets the remaining arguments, and its result is
 * printed next to the id. Changes are audited in the same transaction. Throws ConfigError if the organization does not exist.
 */
export const onOrganization = (
  { action, ...command }: OrganizationCommand,
  run: (deps: TenancyDeps, organizationId: string, words: Arguments['words']) => Promise<Record<string, unknown>>,
): Command<TenancyDeps> => ({
  ...command,
  async run(deps, { words: [organizationId = '', ...words] }) {
    if (!isUuid(organizationId)) throw new ConfigError(`${organizationId || 'Nothing'} is not a UUID`)
    try {
      return await deps.db.transaction(async (db) => {
        const details = await run({ ...deps, db }, organizationId, words)
        if (action !== undefined)
          await recordAudit(db, deps.now(), {
            actor: 'operator',
            action,
            subject: `organization:${organizationId}`,
            details,
          })
        return { json: { organizationId, ...details } }
      })
    } catch (error) {
      if (isForeignKeyViolation(error)) throw new ConfigError('There is no such organization')
      throw error
    }
  },
})
