import { type CallOptions, needsSignIn, type Platform } from '@platform/sdk'
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
      // An answer stays the object that it came as, since its request is known by it.
      queries: { retry: false, networkMode: 'always', staleTime: 5_000, structuralSharing: false },
      mutations: { retry: false, networkMode: 'always' },
    },
  })
}

export type Answer<T> = UseQueryResult<T>

/** A call, and how it is made: what a question hands on to the SDK. */
export type Ask<T> = (platform: Platform, options: Pick<CallOptions, 'signal' | 'onResponse'>) => Promise<T>

/** By what was answered. */
const requestIds = new WeakMap<object, string>()

/** The id of the request whose answer this is, of pages that of the last: what an operator can look for. */
export function requestIdOf(data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null) return undefined
  return requestIds.get(data) ?? ('pages' in data ? requestIdOf((data.pages as unknown[]).at(-1)) : undefined)
}

/** Asks, and remembers by which request the answer came. */
export async function askPlatform<T>(platform: Platform, ask: Ask<T>, signal: AbortSignal): Promise<T> {
  let requestId: string | null = null
  const data = await ask(platform, { signal, onResponse: ({ headers }) => (requestId = headers.get('x-request-id')) })
  if (typeof data === 'object' && data !== null && requestId !== null) requestIds.set(data, requestId)
  return data
}

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
    queryFn: ({ signal }) => askPlatform(platform, ask, signal),
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
