import { needsSignIn, type Platform } from '@platform/sdk'
import {
  MutationCache,
  QueryCache,
  QueryClient,
  useMutation,
  useQuery,
  useQueryClient,
  type UseQueryResult,
} from '@tanstack/preact-query'
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'

export const PlatformContext = createContext<Platform | undefined>(undefined)

export function usePlatform(): Platform {
  const platform = useContext(PlatformContext)
  if (!platform) throw new Error('Nobody is signed in here')
  return platform
}

/** What has been read, for as long as somebody is signed in. refuse: called when the platform does not accept the sign-in any more. */
export function createApiCache(refuse: () => void): QueryClient {
  const onError = (error: Error): void => {
    if (needsSignIn(error)) refuse()
  }
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      // The SDK repeats what may be repeated, and knows better than the browser whether the platform is reached.
      queries: { retry: false, networkMode: 'always', staleTime: 5_000 },
      mutations: { retry: false, networkMode: 'always' },
    },
  })
}

export type Answer<T> = UseQueryResult<T>

type Ask<T> = (platform: Platform, options: { signal: AbortSignal }) => Promise<T>

/**
 * What a call answers, kept under a key that other places can make stale. Asked again every `everyMs` while the page is seen, when it is seen
 * again, and when the key is made stale.
 */
export function useApi<T>(
  key: readonly unknown[],
  ask: Ask<T>,
  { everyMs, isEnabled = true }: { everyMs?: number | undefined; isEnabled?: boolean } = {},
): Answer<T> {
  const platform = usePlatform()
  return useQuery({
    queryKey: key,
    queryFn: ({ signal }) => ask(platform, { signal }),
    refetchInterval: everyMs ?? false,
    enabled: isEnabled,
  })
}

/** A change of the platform. stale: the beginnings of the keys that have to be read again afterwards. */
export function useChange<Input, T>(
  change: (platform: Platform, input: Input) => Promise<T>,
  { stale = [], onDone }: { stale?: readonly (readonly unknown[])[]; onDone?: (result: T, input: Input) => void } = {},
) {
  const platform = usePlatform()
  const cache = useQueryClient()
  return useMutation<T, Error, Input>({
    mutationFn: (input) => change(platform, input),
    onSuccess: async (result, input) => {
      // Marked first: a page that onDone leads to asks again before it says that something is not there.
      const reads = stale.map((queryKey) => cache.invalidateQueries({ queryKey }))
      onDone?.(result, input)
      await Promise.all(reads)
    },
  })
}
