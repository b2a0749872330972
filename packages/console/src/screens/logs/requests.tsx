import { LogView } from '../../log/log-view.tsx'
import { useFeed } from '../../log/use-feed.ts'
import { usePlatform } from '../../platform/api.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { Feed, isOpenEnded } from './feed.tsx'
import { placeOfId } from './ids.ts'
import type { RequestFilter } from './matches.ts'
import { RequestRow } from './request-row.tsx'
import { requestSource } from './request-source.ts'

/** The requests that fit filters, which were checked. openedId: of the one that is shown beside them. */
export function Requests({ values, openedId }: { values: Record<string, string>; openedId: string | undefined }) {
  const { application } = useApplication()
  const platform = usePlatform()
  const { status, ...others } = values
  // Checked by useFilters.
  const filter = { ...others, ...(status !== undefined && { status: Number(status) }) } as RequestFilter
  const isLive = isOpenEnded(values)
  const feed = useFeed(() => requestSource(platform, application.id, filter), application.id, { isLive })
  return (
    <Feed feed={feed} isFiltered={Object.keys(values).length > 0} noun="request">
      {(more) => (
        <LogView
          {...more}
          isLive={isLive}
          label="Requests"
          noun="request"
          fileName={`requests-${application.slug}.txt`}
          row={RequestRow}
          isFitted
          named={openedId === undefined ? undefined : placeOfId(openedId)}
          rowHeightClass="!leading-8 pointer-coarse:!leading-[2.75rem]"
        />
      )}
    </Feed>
  )
}
