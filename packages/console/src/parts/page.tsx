import { platformName } from '@platform/look/name'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Answer } from '../platform/api.ts'
import { Guard, Loaded, Skeleton } from './panel.tsx'

const titleClass = 'min-w-0 text-title font-semibold tracking-tight break-words'

/**
 * A page: its title, one main action, facts, content. Whoever comes here by a link of the console is put at its heading, as a page that is
 * loaded would.
 */
export function Page({
  title,
  action,
  facts,
  children,
}: {
  title: string
  action?: ComponentChildren
  facts?: ComponentChildren
  children: ComponentChildren
}) {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => {
    document.title = `${title} · ${platformName}`
  }, [title])
  useLayoutEffect(() => {
    if (location.hash === '') heading.current?.focus({ preventScroll: true })
    scrollTo(0, 0)
  }, [])
  return (
    <div class="flex flex-col gap-8 pb-16">
      <div class="flex flex-col gap-3">
        <div class="flex flex-wrap items-center justify-between gap-x-6 gap-y-3">
          <h1 ref={heading} tabIndex={-1} class={titleClass}>
            {title}
          </h1>
          {action !== undefined && <div class="flex flex-wrap gap-2">{action}</div>}
        </div>
        {facts}
      </div>
      <Guard>{children}</Guard>
    </div>
  )
}

/** In a page's place until it is known what it shows. title: as much of its name as the address tells. */
export function PageSkeleton({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="flex flex-col gap-8 pb-16">
      <h1 class={titleClass}>{title}</h1>
      {children ?? <Skeleton rows={8} />}
    </div>
  )
}

/** A page, or several, of which nothing can be shown before an answer is there. title: until then. */
export function LoadedPage<T>({
  title,
  answer,
  children,
}: {
  title: string
  answer: Answer<T>
  children: (data: T) => ComponentChildren
}) {
  const loaded = (
    <Loaded answer={answer} rows={8} isPage>
      {children}
    </Loaded>
  )
  return answer.data === undefined ? <PageSkeleton title={title}>{loaded}</PageSkeleton> : loaded
}

/** In a fact's place while it is not known. */
export function Unknown() {
  return (
    <span class="text-soft">
      <span aria-hidden="true">–</span>
      <span class="sr-only">Not known</span>
    </span>
  )
}

/** The strip of facts below a title. */
export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="flex flex-wrap gap-x-8 gap-y-3">{children}</dl>
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="min-w-0">
      <dt class="text-note text-soft">{name}</dt>
      <dd class="min-h-6 break-words">{children}</dd>
    </div>
  )
}
