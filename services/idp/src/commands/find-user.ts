import { NotFound } from '@platform/errors/api-error'
import { isUuid } from '@platform/runtime/is-uuid'
import type { Deps } from '../deps.ts'
import { findUserByEmail } from '../features/accounts/accounts.ts'

/** The id of the user that the operator named by id or by email address. Throws NotFound if no user has the address. */
export async function requireUserId(deps: Pick<Deps, 'db'>, name: string): Promise<string> {
  if (isUuid(name)) return name.toLowerCase()
  const user = await findUserByEmail(deps, name)
  if (!user) throw new NotFound(`User ${name}`)
  return user.id
}
