import { type ApiKey, listApiKeys } from '@platform/sdk'
import { type Answer, useApi } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'

export const keysOf = (applicationId: string): readonly unknown[] => [...ofApplication(applicationId), 'keys']

/** The keys of an application, newest first; those that have ended, too. */
export const useKeys = (applicationId: string): Answer<{ items: ApiKey[] }> =>
  useApi(keysOf(applicationId), (platform, options) => listApiKeys(platform, { applicationId }, options))
