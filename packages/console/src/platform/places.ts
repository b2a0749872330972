import {
  all,
  type Application,
  listApplications,
  listMembers,
  listOrganizations,
  type Organization,
} from '@platform/sdk'
import { userInfo } from '@platform/sdk/sign-in'
import { session } from '../session/session.ts'
import { type Answer, useApi } from './api.ts'

/** The organizations of the person, newest first. */
export const useOrganizations = (): Answer<Organization[]> =>
  useApi(['organizations'], (platform, options) => Array.fromAsync(all(listOrganizations, platform, {}, options)))

/** The applications of an organization, newest first. */
export const useApplications = (organizationId: string): Answer<Application[]> =>
  useApi(['applications', organizationId], (platform, options) =>
    Array.fromAsync(all(listApplications, platform, { organizationId }, options)),
  )

/** The address of a page. */
export const pathOf = (...segments: readonly string[]): string => `/${segments.map(encodeURIComponent).join('/')}`

const LAST = 'last-organization'

/** The organization that was last looked at in this browser, if any: a preference, which may name one that is gone. */
export const lastOrganization = (): string | null => localStorage.getItem(LAST)
export const keepLastOrganization = (slug: string): void => localStorage.setItem(LAST, slug)

/** Who is signed in. */
export function usePerson() {
  return useApi(['person'], () => {
    const { value } = session
    if (value.state !== 'signed-in') throw new Error('Nobody is signed in here')
    return userInfo({ store: value.store })
  })
}

/**
 * Why the person may not do what administrators alone may; undefined if they may, or while it is not known: the platform decides in any
 * case.
 */
export function useAdminObstacle(organizationId: string): string | undefined {
  const person = usePerson().data
  const members = useApi(['members', organizationId], (platform, options) =>
    listMembers(platform, { id: organizationId }, options),
  ).data
  const role = members?.items.find(({ userId }) => userId === person?.sub)?.role
  return role === 'MEMBER'
    ? 'Only owners and administrators of the organization may do this; you are a member.'
    : undefined
}
