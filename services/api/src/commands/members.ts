import { setMember } from '../features/organizations/members.ts'
import { onOrganization, readOneOf } from './arguments.ts'

const roles = ['OWNER', 'ADMIN', 'MEMBER'] as const

export const memberCommands = [
  onOrganization(
    {
      name: 'member set',
      usage: 'member set <organizationId> <userId> <role>',
      summary: 'make a user OWNER, ADMIN or MEMBER of an organization',
      wordCount: 3,
    },
    async (deps, organizationId, [userId = '', role]) => {
      await setMember(deps, organizationId, userId, readOneOf(roles, 'role', role))
      return { userId, role }
    },
  ),
]
