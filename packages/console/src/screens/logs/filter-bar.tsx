import { type RequestSummary, summarizeRequests } from '@platform/sdk'
import { ChevronRight } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { useApi } from '../../platform/api.ts'
import { ofApplication, useDeployments } from '../../platform/deployments.ts'
import { useAddress } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { counted, nameOf, number, shortId } from '../../words.ts'
import { Facet } from './facet.tsx'
import { FilterControl, type Suggestion } from './filter-control.tsx'
import type { FilterField, FilterFields, levels } from './filters.ts'
import type { CheckedFilters } from './use-filters.ts'
import { toneOf } from './tones.ts'

type Dimension = 'status' | 'cacheStatus' | 'deploymentId' | 'path'

/** How many requests there were, by value: of the span that is looked at, otherwise of the last 24 hours. */
function useCounts(groupBy: Dimension, { from, to }: Record<string, string>, isEnabled: boolean) {
  const { application } = useApplication()
  const span = { ...(from && { from }), ...(to && { to }) }
  const { data } = useApi<RequestSummary>(
    [...ofApplication(application.id), 'summary', groupBy, span],
    (platform, options) => summarizeRequests(platform, { id: application.id, groupBy, ...span }, options),
    { everyMs: 60_000, isEnabled },
  )
  return data && new Map(data.groups.map(({ value, requests }) => [value ?? '', requests]))
}

/** Statuses such as 404 as families such as 4xx. */
function byFamily(counts: ReadonlyMap<string, number> | undefined): ReadonlyMap<string, number> | undefined {
  if (!counts) return undefined
  const families = new Map<string, number>()
  for (const [status, count] of counts) families.set(`${status[0]}xx`, (families.get(`${status[0]}xx`) ?? 0) + count)
  return families
}

const suggestionsOf = (counts: ReadonlyMap<string, number> | undefined): Suggestion[] | undefined =>
  counts && Array.from(counts, ([value, count]) => ({ value, words: counted(count, 'request') }))

/** The deployments that one may choose: the newest, and those that had requests. */
function useDeploymentSuggestions(counts: ReadonlyMap<string, number> | undefined): Suggestion[] {
  const { application } = useApplication()
  const newest = useDeployments(application, {}).data?.items ?? []
  const words = (id: string, name: string): string => {
    const count = counts?.get(id)
    return count === undefined ? name : `${name} · ${number(count)}`
  }
  const others = Array.from(counts?.keys() ?? []).filter((id) => id !== '' && newest.every((each) => each.id !== id))
  return [
    ...newest.map((each) => ({ value: each.id, words: words(each.id, nameOf(each)) })),
    ...others.map((id) => ({ value: id, words: words(id, shortId(id)) })),
  ]
}

const statusTones = Object.fromEntries([1, 2, 3, 4, 5].map((family) => [`${family}xx`, toneOf(family * 100)]))
const levelTones: Record<(typeof levels)[number], string> = {
  DEBUG: 'text-soft',
  INFO: '',
  WARN: 'text-warn',
  ERROR: 'text-bad',
}

/** All filters of a view. What is wrong with them stands at each. */
export function FilterBar({ fields, filters }: { fields: FilterFields; filters: CheckedFilters }) {
  const { values, problems, isChecking } = filters
  const address = useAddress()
  const ofRequests = fields.common.some(({ name }) => name === 'statusFamily')
  // Nothing is asked with a filter that is wrong, or may be.
  const isRight = !isChecking && Object.keys(problems).length === 0
  const [wantsPaths, wantPaths] = useState(false)
  const statuses = useCounts('status', values, isRight && ofRequests)
  const caches = useCounts('cacheStatus', values, isRight && ofRequests)
  const deployments = useCounts('deploymentId', values, isRight && ofRequests)
  const paths = useCounts('path', values, isRight && ofRequests && wantsPaths)
  const choices = useDeploymentSuggestions(deployments)
  /** What the person chose; until then the filters that are set decide. */
  const [choice, choose] = useState<boolean>()
  const isSet = ({ name }: FilterField): boolean => values[name] !== undefined
  const setMore = fields.more.filter(isSet).length
  const isOpen = choice ?? setMore > 0
  const none = Object.fromEntries([...fields.common, ...fields.more].map(({ name }) => [name, undefined]))

  const draw = (field: FilterField) => {
    const { name } = field
    const [value, problem] = [values[name], problems[name]]
    const facet = { field, problem, value: problem === undefined ? value : undefined }
    switch (name) {
      case 'statusFamily': {
        // The API takes 2 for 2xx.
        const family = facet.value && `${facet.value[0]}xx`
        return <Facet key={name} {...facet} value={family} counts={byFamily(statuses)} tones={statusTones} />
      }
      case 'cacheStatus':
        return <Facet key={name} {...facet} counts={caches} />
      case 'level':
        return <Facet key={name} {...facet} counts={undefined} tones={levelTones} />
      default: {
        const suggestions = {
          deploymentId: choices,
          pathPrefix: suggestionsOf(paths),
          status: suggestionsOf(statuses),
          cacheHit: [
            { value: 'true', words: 'Yes' },
            { value: 'false', words: 'No' },
          ],
        }[name]
        const onFocus = name === 'pathPrefix' ? { onFocus: () => wantPaths(true) } : {}
        return <FilterControl key={name} {...{ field, problem, suggestions, ...onFocus }} value={value ?? ''} />
      }
    }
  }
  return (
    <section aria-label="Filters" class="flex flex-col gap-3">
      <div class="flex flex-wrap gap-x-6 gap-y-3">
        {fields.common.map((field) => (
          <div key={field.name} class={field.kind === 'choice' ? '' : 'w-48 max-sm:w-full'}>
            {draw(field)}
          </div>
        ))}
      </div>
      <div class="flex flex-wrap items-start justify-between gap-x-6 gap-y-2">
        <details class="group min-w-0 grow" open={isOpen}>
          <summary
            class="inline-flex min-h-8 items-center gap-1 text-soft hover:text-ink pointer-coarse:min-h-11"
            onClick={(event) => {
              event.preventDefault()
              choose(!isOpen)
            }}
          >
            <ChevronRight size={16} strokeWidth={1.5} aria-hidden="true" class="group-open:rotate-90" />
            More filters{setMore > 0 && ` (${number(setMore)} set)`}
          </summary>
          <div class="grid grid-cols-[repeat(auto-fill,minmax(min(13rem,100%),1fr))] gap-x-6 gap-y-3 pt-2">
            {fields.more.map(draw)}
          </div>
        </details>
        {ofRequests && statuses && (
          <p class="inline-flex min-h-8 items-center text-note text-soft">
            {values['from'] || values['to'] ? 'Counts are of this span' : 'Counts are of the last 24 hours'}, whatever
            the other filters
          </p>
        )}
        {Object.keys(values).length > 0 && (
          <a
            href={address({ ...none, request: undefined, line: undefined })}
            class="inline-flex min-h-8 items-center text-accent underline pointer-coarse:min-h-11"
          >
            Clear all filters
          </a>
        )}
      </div>
    </section>
  )
}
