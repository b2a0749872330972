import { useEffect } from 'preact/hooks'
import { lazy, useLocation } from 'preact-iso'
import { useLine } from '../../command/terminal.ts'
import { Failure, Wrong } from '../../parts/notice.tsx'
import { Page } from '../../parts/page.tsx'
import { Guard, Skeleton } from '../../parts/panel.tsx'
import { pathOf } from '../../platform/places.ts'
import { useAddress, useChoice, useIdOf } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { InApplication } from '../place.tsx'
import { linesLine, requestLine, requestsLine } from './command.ts'
import { FilterBar } from './filter-bar.tsx'
import { lineFields, requestFields } from './filters.ts'
import { useFilters } from './use-filters.ts'

const views = { requests: 'Requests', lines: 'Runtime lines' } as const
type View = keyof typeof views

// Each is fetched when it is shown: a visit needs one list, and may open no request.
const Requests = lazy(async () => (await import('./requests.tsx')).Requests)
const Lines = lazy(async () => (await import('./lines.tsx')).Lines)
const RequestDetail = lazy(async () => (await import('./request-detail.tsx')).RequestDetail)

export default function LogsScreen({ organization, application }: { organization: string; application: string }) {
  return (
    <InApplication organization={organization} application={application}>
      <Logs key={`${organization}/${application}`} />
    </InApplication>
  )
}

function Logs() {
  const { organization, application } = useApplication()
  const view = useChoice('view', ['requests', 'lines'] as const)
  const opened = useIdOf('request')
  const shown = view.value ?? 'requests'
  const fields = shown === 'requests' ? requestFields : lineFields
  const filters = useFilters(fields)
  const { values, problems, isChecking, error, again } = filters
  const address = useAddress()
  const { query } = useLocation()
  const home = pathOf(organization.slug, application.slug, 'logs')
  const closeHref = address({ request: undefined })
  useClosing(opened.value === undefined ? undefined : closeHref)
  const line = { applicationId: application.id, app: `${organization.slug}/${application.slug}`, values }
  const listed = shown === 'requests' ? requestsLine(line) : linesLine(line)
  useLine(opened.value === undefined ? listed : requestLine(application.id, opened.value))
  // What both views understand goes along.
  const linkTo = (name: View): string => {
    const kept = ['deploymentId', 'from', 'to'].flatMap((member) => (query[member] ? [[member, query[member]]] : []))
    const members = new URLSearchParams([...(name === 'requests' ? [] : [['view', name]]), ...kept]).toString()
    return members === '' ? home : `${home}?${members}`
  }
  const wrong = [view, opened].flatMap((choice) => choice.wrong ?? [])
  const isRight = Object.keys(problems).length === 0
  const key = JSON.stringify([shown, values])
  return (
    <Page title="Logs">
      <div class="flex flex-col gap-4">
        <nav aria-label="Views of the logs" class="flex gap-1 overflow-x-auto border-b border-line">
          {(['requests', 'lines'] as const).map((name) => (
            <a
              key={name}
              href={linkTo(name)}
              aria-current={name === shown ? 'page' : undefined}
              class={`border-b-2 px-3 py-2 whitespace-nowrap pointer-coarse:py-3 ${name === shown ? 'border-accent font-medium text-ink' : 'border-transparent text-soft hover:text-ink'}`}
            >
              {views[name]}
            </a>
          ))}
        </nav>
        {wrong.length > 0 && (
          <Wrong>
            {wrong.map((sentence) => (
              <p key={sentence} class="break-all">
                {sentence}
              </p>
            ))}
            <a href={home} class="text-accent underline">
              All requests
            </a>
          </Wrong>
        )}
        <FilterBar key={shown} fields={fields} filters={filters} />
        <div
          class={`grid items-start gap-4 ${opened.value === undefined ? '' : 'lg:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)]'}`}
        >
          <div class="min-w-0">
            <Guard>
              {error && <Failure error={error} again={again} />}
              {isChecking && <Skeleton rows={10} />}
              {!isRight && <p class="py-6 text-soft">Nothing is asked for as long as a filter is wrong.</p>}
              {isRight &&
                !isChecking &&
                !error &&
                (shown === 'requests' ? (
                  <Requests key={key} values={values} openedId={opened.value} />
                ) : (
                  <Lines key={key} values={values} />
                ))}
            </Guard>
          </div>
          {opened.value !== undefined && <RequestDetail id={opened.value} closeHref={closeHref} />}
        </div>
      </div>
    </Page>
  )
}

/** Escape leads to an address, where there is one. */
function useClosing(href: string | undefined): void {
  const { route } = useLocation()
  useEffect(() => {
    if (href === undefined) return
    const close = ({ key, defaultPrevented, target }: KeyboardEvent): void => {
      if (key !== 'Escape' || defaultPrevented) return
      // A dialog, a menu or a field takes it for itself.
      if (document.querySelector('dialog[open], :popover-open')) return
      if ((target as Element).matches('input, textarea, select')) return
      route(href)
      document.querySelector<HTMLElement>('main [role=region] a[aria-current=true]')?.focus()
    }
    document.addEventListener('keydown', close)
    return () => document.removeEventListener('keydown', close)
  }, [href])
}
