import type { Deployment } from '@platform/sdk'
import { useBuildLog } from '../../log/build-log.ts'
import { Row } from '../../log/line-row.tsx'
import { LogView } from '../../log/log-view.tsx'
import { Failure } from '../../parts/notice.tsx'
import { Guard, Skeleton } from '../../parts/panel.tsx'
import { isUnderWay } from '../../words.ts'

/** What the build printed. */
export function Log({ deployment }: { deployment: Deployment }) {
  const isLive = isUnderWay(deployment)
  const { lines, isRead, error, again } = useBuildLog(deployment, { isLive })
  return (
    <Guard>
      {error && <Failure error={error} again={again} isStale={isRead} />}
      {isRead ? (
        <LogView
          lines={lines}
          isLive={isLive}
          label="Build log"
          row={Row}
          isNumbered
          fileName={`build-${deployment.id}.txt`}
        />
      ) : (
        !error && <Skeleton rows={10} />
      )}
    </Guard>
  )
}
