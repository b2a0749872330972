import { ConfigError } from '@platform/runtime/config'
import type { Command } from '@platform/service/cli'
import type { TenancyDeps } from '../deps.ts'
import { membershipsOf, memberRoles, removeMember, changeRole, transferOrganization } from '../organizations/members.ts'
import { onOrganization, readOneOf } from './arguments.ts'

const roles = ['OWNER', 'ADMIN', 'MEMBER'] as const

const lastOwner = (userId: string): ConfigError =>
  new ConfigError(`${userId} is the only OWNER: use organization transfer to name another`)

export const memberCommands: readonly Command<TenancyDeps>[] = [
  onOrganization(
    {
      name: 'member list',
      usage: 'member list <organizationId>',
      summary: 'the members of an organization and their roles',
      wordCount: 1,
    },
    async (deps, organizationId) => ({ members: await memberRoles(deps, organizationId) }),
  ),
  onOrganization(
    {
      name: 'member set',
      action: 'member.set',
      usage: 'member set <organizationId> <userId> <role>',
      summary: 'make a user OWNER, ADMIN or MEMBER of an organization',
      wordCount: 3,
    },
    async (deps, organizationId, [userId = '', role]) => {
      const outcome = await changeRole(deps, organizationId, userId, readOneOf(roles, 'role', role))
      if (outcome === 'last-owner') throw lastOwner(userId)
      return { userId, role }
    },
  ),
  onOrganization(
    {
      name: 'member remove',
      action: 'member.removed',
      usage: 'member remove <organizationId> <userId>',
      summary: 'take a user out of an organization; never its last OWNER',
      wordCount: 2,
    },
    async (deps, organizationId, [userId = '']) => {
      const outcome = await removeMember(deps, organizationId, userId)
      if (outcome === 'missing') throw new ConfigError(`${userId} is not a member of the organization`)
      if (outcome === 'last-owner') throw lastOwner(userId)
      return { userId }
    },
  ),
  {
    name: 'organization list',
    usage: 'organization list <userId>',
    summary: 'the organizations of a user, such as one who was deleted',
    wordCount: 1,
    run: async (deps, { words: [userId = ''] }) => ({
      json: { userId, organizations: await membershipsOf(deps, userId) },
    }),
  },
  onOrganization(
    {
      name: 'organization transfer',
      action: 'organization.transferred',
      usage: 'organization transfer <organizationId> <userId>',
      summary:
        'make a user the OWNER of an organization in the place of those it has, such as one who was deleted; they leave it',
      wordCount: 2,
    },
    async (deps, organizationId, [userId = '']) => {
      const formerOwnerIds = await transferOrganization(deps, organizationId, userId)
      if (!formerOwnerIds)
        throw new ConfigError(
          `${userId} is no member and has never called the API: if the id is right, make them one by member set first`,
        )
      return { ownerId: userId, formerOwnerIds }
    },
  ),
]
