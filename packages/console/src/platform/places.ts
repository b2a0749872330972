import {
  all,
  type Application,
  listApplications,
  listMembers,
  listOrganizations,
  type Member,
  type Organization,
} from '@platform/sdk'
import { userInfo } from '@platform/sdk/sign-in'
import { session } from '../session/session.ts'
import { type Answer, useApi } from './api.ts'

/** The organizations of the person, newest first. */
export const useOrganizations = (): Answer<Organization[]> =>
  useApi(['organizations'], (platform, options) => Array.fromAsync(all(listOrganizations, platform, {}, options)))

/** The applications of an organization, newest first. */
export const useApplications = (organizationId: string | undefined): Answer<Application[]> =>
  useApi(
    ['applications', organizationId],
    (platform, options) =>
      Array.fromAsync(all(listApplications, platform, { organizationId: organizationId as string }, options)),
    { isEnabled: organizationId !== undefined },
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

/** The members of an organization. */
export const useMembers = (organizationId: string | undefined): Answer<{ items: Member[] }> =>
  useApi(
    ['members', organizationId],
    (platform, options) => listMembers(platform, { id: organizationId as string }, options),
    { isEnabled: organizationId !== undefined },
  )

/** What a member is called: by name, by email, or by the id at the provider where the platform knows neither. */
export const callMember = ({ givenName, familyName, email, userId }: Member): string =>
  [givenName, familyName].filter((part) => part !== null && part !== '').join(' ') || (email ?? userId)

/** The person's role in an organization; undefined while it is not known. */
export function useRole(organizationId: string | undefined): Member['role'] | undefined {
  const person = usePerson().data
  return useMembers(organizationId).data?.items.find(({ userId }) => userId === person?.sub)?.role
}

/**
 * Why the person may not do what administrators alone may; undefined if they may, or while it is not known: the platform decides in any
 * case.
 */
export function useAdminObstacle(organizationId: string): string | undefined {
  return useRole(organizationId) === 'MEMBER'
    ? 'Only owners and administrators of the organization may do this; you are a member.'
    : undefined
}
