import { LogView } from '../../log/log-view.tsx'
import { useFeed } from '../../log/use-feed.ts'
import { Wrong } from '../../parts/notice.tsx'
import { usePlatform } from '../../platform/api.ts'
import { useIdOf } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { Feed, isOpenEnded } from './feed.tsx'
import { FunctionRow } from './function-row.tsx'
import { placeOfId } from './ids.ts'
import { type LineFilter, lineSource } from './line-source.ts'

/** From so many on, the API counts no further. */
const LINES_COUNTED_MAX = 10_000

/** What Functions printed and fits filters, which were checked. The address may name a line. */
export function Lines({ values }: { values: Record<string, string> }) {
  const { application } = useApplication()
  const platform = usePlatform()
  const line = useIdOf('line')
  const named = line.value === undefined ? undefined : placeOfId(line.value)
  const isLive = isOpenEnded(values)
  // Checked by useFilters.
  const filter = values as LineFilter
  const options = { isLive, named, totalMax: LINES_COUNTED_MAX }
  const feed = useFeed(() => lineSource(platform, application.id, filter), application.id, options)
  return (
    <>
      {(line.wrong ?? (feed.isMissing || undefined)) !== undefined && (
        <div class="mb-3">
          <Wrong>
            {line.wrong ??
              'The line of this address is not here: it does not fit the filters, or is not kept any more.'}
          </Wrong>
        </div>
      )}
      <Feed feed={feed} isFiltered={Object.keys(values).length > 0} noun="line">
        {(more) => (
          <LogView
            {...more}
            isLive={isLive}
            label="Runtime lines"
            fileName={`lines-${application.slug}.txt`}
            row={FunctionRow}
            named={named}
            // As high as a target has to be (WCAG 2.5.8).
            rowHeightClass="!leading-6"
          />
        )}
      </Feed>
    </>
  )
}
