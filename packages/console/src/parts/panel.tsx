import { Component, type ComponentChildren } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import type { Answer } from '../platform/api.ts'
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
      <span class="sr-only" role="status">
        Loading
      </span>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} class="flex h-9 items-center border-t border-line first:border-0">
          <div
            class={`h-3 rounded-badge bg-sunken ${isShown ? '' : 'invisible'} ${row % 2 === 0 ? 'w-2/3' : 'w-1/2'}`}
          />
        </div>
      ))}
    </div>
  )
}

/** Holds an exception within its part of the page. */
export class Guard extends Component<{ children: ComponentChildren }, { error?: Error | undefined }> {
  override state: { error?: Error | undefined } = {}

  static override getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error : new Error(String(error)) }
  }

  override componentDidCatch(error: unknown): void {
    console.error(error)
  }

  override render() {
    const { error } = this.state
    if (error) return <Failure error={error} again={() => this.setState({ error: undefined })} />
    return this.props.children
  }
}

/** What a call answered, in each of its states. After a failure, what was there stays. */
export function Loaded<T>({
  answer,
  rows,
  children,
}: {
  answer: Answer<T>
  /** As many as the part usually has. */
  rows?: number
  children: (data: T) => ComponentChildren
}) {
  const { data, error } = answer
  const again = (): void => void answer.refetch()
  if (data === undefined) return error ? <Failure error={error} again={again} /> : <Skeleton {...(rows && { rows })} />
  return (
    <>
      {error && (
        <div class="mb-3">
          <Failure error={error} again={again} isStale />
        </div>
      )}
      {children(data)}
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
