import { type Cron, type CronRun, type Deployment, listCrons, runCron } from '@platform/sdk'
import { Play } from 'lucide-preact'
import { didAs } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Empty, Failure } from '../../parts/notice.tsx'
import { Loaded } from '../../parts/panel.tsx'
import { tell } from '../../parts/toast.tsx'
import { When } from '../../parts/when.tsx'
import { useApi, useChange } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { dateTime, duration, utc } from '../../words.ts'

const EVERY_MS = 15_000

/** What it does at times of its own. */
export default function Crons({ deployment }: { deployment: Deployment }) {
  const { id, applicationId } = deployment
  const key = [...ofApplication(applicationId), 'crons', id]
  const crons = useApi(key, (platform, options) => listCrons(platform, { id }, options), { everyMs: EVERY_MS })
  const run = useChange((platform, { id: cronId }: Cron) => runCron(platform, { id, cronId }), {
    stale: [key],
    onDone: (_, { id: cronId, path }) => {
      didAs({ method: 'POST', path: `/deployments/${id}/crons/${cronId}/run` })
      tell(`${path} was asked`)
    },
  })
  const isAnswering = deployment.status === 'ACTIVE' && deployment.retiredAt === null
  const obstacle = isAnswering ? (run.isPending ? 'Under way' : undefined) : 'The deployment does not answer'
  return (
    <Loaded answer={crons} rows={3}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty>
            It has no cron jobs. A <code class="font-mono">vercel.json</code> with <code class="font-mono">crons</code>{' '}
            names paths and when they are asked.
          </Empty>
        ) : (
          <div class="flex flex-col gap-3">
            {run.error && <Failure error={run.error} />}
            {items.some(({ isActive }) => !isActive) && (
              <p class="text-soft">They run by themselves while the deployment is live in production.</p>
            )}
            <table class="rows">
              <thead>
                <tr>
                  <th scope="col">Path</th>
                  <th scope="col">Schedule, UTC</th>
                  <th scope="col">Next</th>
                  <th scope="col">Last run</th>
                  <th scope="col">
                    <span class="sr-only">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {items.map((cron) => (
                  <tr key={cron.id}>
                    <td class="font-mono text-note break-all max-sm:basis-full">{cron.path}</td>
                    <td class="font-mono text-note whitespace-nowrap">{cron.schedule}</td>
                    <td data-label="Next">
                      {cron.nextRunAt === null ? (
                        <span class="text-soft">–</span>
                      ) : (
                        <time dateTime={cron.nextRunAt} title={utc(new Date(cron.nextRunAt))}>
                          {dateTime(new Date(cron.nextRunAt))}
                        </time>
                      )}
                    </td>
                    <td data-label="Last">
                      <LastRun run={cron.lastRun} />
                    </td>
                    <td class="max-sm:basis-full">
                      <Button reason={obstacle} onClick={() => run.mutate(cron)}>
                        <Play size={16} strokeWidth={1.5} aria-hidden="true" /> Run now
                        <span class="sr-only">{cron.path}</span>
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Loaded>
  )
}

function LastRun({ run }: { run: CronRun }) {
  if (run === null) return <span class="text-soft">Never</span>
  const { outcome, status, dueAt, durationMs, error } = run
  if (outcome === null)
    return (
      <span class="text-accent">
        Under way, due <When at={dueAt} />
      </span>
    )
  return (
    <span>
      <span class={outcome === 'failed' ? 'text-bad' : 'text-ok'}>{outcome === 'failed' ? 'Failed' : 'Succeeded'}</span>
      {status !== null && ` with ${status}`}
      {durationMs !== null && ` in ${duration(durationMs)}`}, <When at={dueAt} />
      {error !== null && <span class="block break-words text-soft">{error}</span>}
    </span>
  )
}
