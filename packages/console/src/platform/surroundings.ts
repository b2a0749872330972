import type { Application, Organization } from '@platform/sdk'
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'

/** Where a page is: what its address names, and may be seen by the person. */
export interface InOrganization {
  organization: Organization
}

export interface InApplication extends InOrganization {
  application: Application
}

export const OrganizationContext = createContext<InOrganization | undefined>(undefined)
export const ApplicationContext = createContext<InApplication | undefined>(undefined)

export function useOrganization(): Organization {
  const place = useContext(OrganizationContext)
  if (!place) throw new Error('This page belongs to no organization')
  return place.organization
}

export function useApplication(): InApplication {
  const place = useContext(ApplicationContext)
  if (!place) throw new Error('This page belongs to no application')
  return place
}
