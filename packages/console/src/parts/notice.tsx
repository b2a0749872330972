import { PlatformError } from '@platform/sdk'
import { RotateCw } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { Button } from './button.tsx'
import { Copy } from './copy.tsx'
import { Mark } from './mark.tsx'

/** Nothing is there yet: what would be, and the way to it. */
export function Empty({ children, action }: { children: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="flex flex-col items-start gap-3 py-6">
      <Mark class="size-6 text-line" isPale />
      <p class="text-soft">{children}</p>
      {action}
    </div>
  )
}

/** What an operator can look for. */
function RequestId({ id }: { id: string }) {
  return (
    <p class="flex flex-wrap items-center gap-1 text-note text-soft">
      Request id <code class="font-mono break-all">{id}</code> <Copy text={id} what="the request id" />
    </p>
  )
}

/** A scope that a sentence of the platform names is the answer to "what is missing"; a role is said by the sentence itself. */
const headline = (error: Error): string => {
  if (!(error instanceof PlatformError)) return 'Something in this part of the page failed'
  if (error.status === 403) return 'You may not see or do this'
  if (error.status === 404) return 'This is gone, or was never there for you'
  if (error.status === 402 || error.status === 429) return 'A limit is reached'
  if (error.status === 0) return 'The platform does not answer'
  return error.status >= 500 ? 'The platform failed' : 'The platform refused'
}

/** A failure, in the platform's own words. */
export function Failure({
  error,
  requestId = error instanceof PlatformError ? error.requestId : undefined,
  again,
  isStale = false,
}: {
  error: Error
  /** What an operator can look for; that of the error, if none is given. */
  requestId?: string | undefined
  again?: (() => void) | undefined
  isStale?: boolean
}) {
  return (
    <div
      role="alert"
      class="flex flex-col items-start gap-2 rounded-control border-s-4 border-bad bg-bad-tint p-3 text-ink"
    >
      <p class="font-medium">{headline(error)}</p>
      <p class="break-words whitespace-pre-wrap">{error.message}</p>
      {isStale && <p class="text-soft">Below is what was there before.</p>}
      {requestId !== undefined && <RequestId id={requestId} />}
      {again && (
        <Button onClick={again}>
          <RotateCw size={16} strokeWidth={1.5} aria-hidden="true" /> Try again
        </Button>
      )}
    </div>
  )
}

/** What is wrong with an address, or worth knowing before one goes on. */
export function Wrong({ children }: { children: ComponentChildren }) {
  return <div class="rounded-control border-s-4 border-warn bg-warn-tint p-3 text-ink">{children}</div>
}
