import { type QueryClient, QueryClientContext } from '@tanstack/preact-query'
import { Component, type ComponentChildren } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { type Answer, requestIdOf } from '../platform/api.ts'
import { contactAgeMs } from '../platform/contact.ts'
import { now } from '../platform/now.ts'
import { duration } from '../words.ts'
import { Failure } from './notice.tsx'

/** In a part's place while it is read, as high as the part will be; what comes within 150 ms never shows it. */
export function Skeleton({ rows = 3 }: { rows?: number }) {
  const [isShown, show] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => show(true), 150)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div aria-busy="true">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} class="flex h-9 items-center border-t border-line first:border-0">
          <div
            class={`h-3 rounded-badge bg-sunken ${isShown ? '' : 'invisible'} ${row % 2 === 0 ? 'w-2/3' : 'w-1/2'}`}
          />
        </div>
      ))}
      <span class="sr-only" role="status">
        Loading
      </span>
    </div>
  )
}

const notShown = new Error('What belongs here cannot be shown. The console of the browser has the reason.')

/** Holds an exception within its part of the page. requestId: by which what it shows came. */
export class Guard extends Component<
  { requestId?: string | undefined; children: ComponentChildren },
  { isBroken: boolean }
> {
  static override contextType = QueryClientContext
  override state = { isBroken: false }

  static override getDerivedStateFromError() {
    return { isBroken: true }
  }

  override componentDidCatch(error: unknown): void {
    console.error(error)
  }

  /** Reads all of the page anew: an answer that was kept would break it again. */
  async #again(): Promise<void> {
    const cache = this.context as QueryClient | undefined
    cache?.removeQueries({ type: 'inactive' })
    await cache?.invalidateQueries({}, { cancelRefetch: false })
    // In a task of its own: the parts of the page are handed the answers in one that is under way.
    setTimeout(() => this.setState({ isBroken: false }))
  }

  override render() {
    return this.state.isBroken ? (
      <Failure error={notShown} requestId={this.props.requestId} again={() => void this.#again()} />
    ) : (
      this.props.children
    )
  }
}

function Rendered<T>({ data, render }: { data: T; render: (data: T) => ComponentChildren }) {
  return <>{render(data)}</>
}

/** What a call answered, in each of its states. After a failure, what was there stays. */
export function Loaded<T>({
  answer,
  rows,
  isPage = false,
  children,
}: {
  answer: Answer<T>
  /** As many as the part usually has. */
  rows?: number
  /** Whether it is all of a page. */
  isPage?: boolean
  children: (data: T) => ComponentChildren
}) {
  const { data, error } = answer
  const again = (): void => void answer.refetch()
  if (data === undefined) return error ? <Failure error={error} again={again} /> : <Skeleton {...(rows && { rows })} />
  return (
    <>
      {error && (
        <div class={isPage ? 'mb-6' : 'mb-3'}>
          <Failure error={error} again={again} isStale />
        </div>
      )}
      <Guard requestId={requestIdOf(data)}>
        <Rendered data={data} render={children} />
      </Guard>
    </>
  )
}

/** A part of a page with a heading of its own, which fails by itself. at: when what it shows was read, in milliseconds since 1970. */
export function Panel({
  title,
  action,
  at,
  children,
}: {
  title: string
  action?: ComponentChildren
  at?: number | undefined
  children: ComponentChildren
}) {
  const id = useId()
  return (
    <section aria-labelledby={id} class="min-w-0">
      <div class="mb-2 flex min-h-8 flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <h2 id={id} class="text-body font-semibold">
          {title}
          {at !== undefined && at > 0 && contactAgeMs.value !== undefined && (
            <span class="ms-2 font-normal text-warn">{duration(Math.max(0, now.value - at))} old</span>
          )}
        </h2>
        {action}
      </div>
      <Guard>{children}</Guard>
    </section>
  )
}
