import { getDeployment, isNotFound } from '@platform/sdk'
import { useLocation } from 'preact-iso'
import { useApi } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { type FilterFields, readFilters, type ReadFilters } from './filters.ts'

export interface CheckedFilters extends ReadFilters {
  /** Whether it is still unknown what is wrong with them. */
  isChecking: boolean
  /** Why that cannot be known. */
  error: Error | undefined
  again: () => void
}

/** The filters of the address. A deployment that is not the application's is a mistake like any other. */
export function useFilters(fields: FilterFields): CheckedFilters {
  const { application } = useApplication()
  const { values, problems } = readFilters(fields, useLocation().query)
  const id = values['deploymentId']
  const isNamed = id !== undefined && problems['deploymentId'] === undefined
  const answer = useApi(
    [...ofApplication(application.id), 'deployment', id],
    (platform, options) => getDeployment(platform, { id: id ?? '' }, options),
    { isEnabled: isNamed },
  )
  const checked = { values, isChecking: false, error: undefined, again: () => void answer.refetch() }
  if (!isNamed) return { ...checked, problems }
  const wrong = (sentence: string): CheckedFilters => ({
    ...checked,
    problems: { ...problems, deploymentId: sentence },
  })
  if (answer.data)
    return answer.data.applicationId === application.id
      ? { ...checked, problems }
      : wrong('This deployment belongs to another application.')
  if (isNotFound(answer.error)) return wrong('There is no such deployment that you may see.')
  return { ...checked, problems, isChecking: answer.error === null, error: answer.error ?? undefined }
}
