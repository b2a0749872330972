import {
  type Activity,
  all,
  type Application,
  type Deployment,
  follow,
  getDeployment,
  listActivity,
  type ListActivityResponse,
  listDeployments,
  type ListDeploymentsData,
  needsSignIn,
  promoteDeployment,
  streamActivity,
} from '@platform/sdk'
import { useQueryClient } from '@tanstack/preact-query'
import { useEffect } from 'preact/hooks'
import { didAs } from '../command/terminal.ts'
import { tell } from '../parts/toast.tsx'
import { nameOf } from '../words.ts'
import { type Answer, type Ask, askPlatform, useApi, useChange, usePlatform } from './api.ts'
import { keepLive, type LiveSource } from './live.ts'

/** What a deployment's change makes stale. */
export const ofApplication = (applicationId: string): readonly string[] => ['application', applicationId]

export type DeploymentFilter = Pick<NonNullable<ListDeploymentsData['query']>, 'environment' | 'status' | 'from'>

export const PAGE = 25

/** A page of an application's deployments, newest first. */
export const useDeployments = (application: Application, filter: DeploymentFilter, limit = PAGE) =>
  useApi([...ofApplication(application.id), 'deployments', filter, limit], (platform, options) =>
    listDeployments(platform, { applicationId: application.id, limit, ...filter }, options),
  )

export const useDeployment = (application: Application, id: string): Answer<Deployment> =>
  useApi([...ofApplication(application.id), 'deployment', id], (platform, options) =>
    getDeployment(platform, { id }, options),
  )

/**
 * The deployment that production serves now, null if none. newest: the first page of all deployments, in which it mostly is; the platform is
 * asked for it only where it is older.
 */
export function useCurrentDeployment(
  application: Application,
  newest: { items: Deployment[]; total: number } | undefined,
): { data: Deployment | null | undefined } {
  const found = newest?.items.find(({ isCurrent, isProduction }) => isCurrent && isProduction)
  const isOlder = newest !== undefined && !found && newest.total > newest.items.length
  const older = useApi(
    [...ofApplication(application.id), 'current'],
    async (platform, options) => {
      const params = { applicationId: application.id, environment: 'production', status: 'ACTIVE' } as const
      for await (const deployment of all(listDeployments, platform, params, options))
        if (deployment.isCurrent) return deployment
      return null
    },
    { isEnabled: isOlder },
  )
  if (found) return { data: found }
  return { data: isOlder ? older.data : newest && null }
}

const activityKey = ({ id }: Application): readonly string[] => [...ofApplication(id), 'activity']
const askActivity =
  ({ id }: Application): Ask<ListActivityResponse> =>
  (platform, options) =>
    listActivity(platform, { id, limit: 20 }, options)

/** What happened to an application last, newest first. */
export const useActivity = (application: Application): Answer<ListActivityResponse> =>
  useApi(activityKey(application), askActivity(application))

/**
 * Keeps what is shown of an application up to date by its activity: each change makes what was read of the application stale. isOff: while
 * the page holds another stream.
 */
export function useActivityOf(application: Application, { isOff = false }: { isOff?: boolean } = {}): void {
  const platform = usePlatform()
  const cache = useQueryClient()
  const { id } = application
  useEffect(() => {
    if (isOff) return
    const leaving = new AbortController()
    /** The last change that is known; undefined until there has been one. */
    let last: string | undefined
    const seen = ({ id: number }: Pick<Activity, 'id'>): void => {
      last = number
      void cache.invalidateQueries({ queryKey: ofApplication(id) })
    }
    const newest = async (): Promise<Activity | undefined> => {
      const { items } = await cache.fetchQuery({
        queryKey: activityKey(application),
        queryFn: ({ signal }) => askPlatform(platform, askActivity(application), signal),
        staleTime: 4_000,
      })
      return items[0]
    }
    const source: LiveSource = {
      async follow({ signal, onState, onBeat }) {
        // What changed between two connections without a known place in the order would be missed.
        if (last === undefined) last = (await newest())?.id ?? '0'
        for await (const event of follow(
          streamActivity,
          platform,
          { id },
          { signal, onState, onBeat, lastEventId: last },
        ))
          seen(event.data)
      },
      async poll() {
        const item = await newest()
        if (item && last !== undefined && item.id !== last) seen(item)
        last ??= item?.id ?? '0'
        return false
      },
    }
    keepLive(source, leaving.signal).catch((error: unknown) => {
      // The page's own questions say what is wrong; the cache says it to the session.
      if (needsSignIn(error)) void cache.invalidateQueries()
      else void cache.invalidateQueries({ queryKey: ofApplication(id) })
    })
    return () => leaving.abort()
  }, [platform, cache, id, isOff])
}

/** Puts a deployment into its environment's place, and offers to put the one before back. */
export function usePromotion(application: Application) {
  const platform = usePlatform()
  const cache = useQueryClient()
  const stale = [ofApplication(application.id)]
  async function undo(before: Deployment): Promise<void> {
    try {
      await promoteDeployment(platform, { id: before.id })
      didAs({ words: ['promote', before.id] })
      tell(`${nameOf(before)} is live in ${before.environment} again`)
    } catch (error) {
      tell(`Not undone: ${(error as Error).message}`)
    }
    await cache.invalidateQueries({ queryKey: ofApplication(application.id) })
  }
  return useChange(
    (_, { deployment }: { deployment: Deployment; before: Deployment | undefined }) =>
      promoteDeployment(platform, { id: deployment.id }),
    {
      stale,
      onDone: (now, { before }) => {
        didAs({ words: ['promote', now.id] })
        tell(
          `${nameOf(now)} is live in ${now.environment}, with the variables it was deployed with`,
          before && { word: 'Undo', act: () => void undo(before) },
        )
      },
    },
  )
}
