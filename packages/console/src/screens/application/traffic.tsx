import { type RequestSummary, summarizeRequests } from '@platform/sdk'
import { Chart } from '../../parts/chart.tsx'
import { Empty, Wrong } from '../../parts/notice.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { useApi } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { useAddress, useChoice } from '../../platform/query.ts'
import { useApplication } from '../../platform/surroundings.ts'
import { bytes, clock, dateTime, duration, number, shortNumber } from '../../words.ts'

const spans = { '1h': 3_600_000, '24h': 86_400_000, '7d': 7 * 86_400_000 } as const
type Span = keyof typeof spans
const names = Object.keys(spans) as Span[]

const EVERY_MS = 20_000
const steps = { minute: 60_000, hour: 3_600_000 } as const

/** What visitors asked for, over a span that the address names. */
export function Traffic() {
  const { application } = useApplication()
  const { value, wrong } = useChoice('span', names)
  const span = value ?? '24h'
  const address = useAddress()
  const summary = useApi(
    [...ofApplication(application.id), 'requests', span],
    (platform, options) => {
      const to = Date.now()
      const times = { from: new Date(to - spans[span]).toISOString(), to: new Date(to).toISOString() }
      return summarizeRequests(platform, { id: application.id, ...times, groupBy: 'status' }, options)
    },
    { everyMs: EVERY_MS },
  )
  return (
    <Panel
      title="Requests"
      at={summary.dataUpdatedAt}
      action={
        <nav aria-label="Span" class="flex gap-1">
          {names.map((name) => (
            <a
              key={name}
              href={address({ span: name })}
              aria-current={name === span ? 'true' : undefined}
              class={`rounded-control px-2 py-1 text-note pointer-coarse:py-3 ${name === span ? 'bg-accent-tint font-medium text-accent' : 'text-soft hover:bg-sunken'}`}
            >
              {name}
            </a>
          ))}
        </nav>
      }
    >
      {wrong !== undefined && (
        <div class="mb-3">
          <Wrong>{wrong}. Shown are the last 24 hours.</Wrong>
        </div>
      )}
      <Loaded answer={summary} rows={6}>
        {(data) =>
          data.total.requests === 0 ? (
            <Empty>Nobody asked for anything in this span.</Empty>
          ) : (
            <Figures summary={data} span={span} />
          )
        }
      </Loaded>
    </Panel>
  )
}

/** Every interval of the period: the platform tells those that had requests. */
function filledOf({
  from,
  to,
  interval,
  series,
}: RequestSummary): { at: Date; entry: RequestSummary['series'][number] | undefined }[] {
  const step = steps[interval]
  const known = new Map(series.map((entry) => [new Date(entry.at).getTime(), entry]))
  const times: { at: Date; entry: RequestSummary['series'][number] | undefined }[] = []
  for (let at = Math.floor(Date.parse(from) / step) * step; at < Date.parse(to); at += step)
    times.push({ at: new Date(at), entry: known.get(at) })
  return times
}

function Figures({ summary, span }: { summary: RequestSummary; span: Span }) {
  const { total, groups } = summary
  const errors = groups.reduce((sum, { value, requests }) => sum + (value?.startsWith('5') ? requests : 0), 0)
  const filled = filledOf(summary)
  const times = filled.map(({ at }) => at)
  const showTime = span === '1h' ? clock : dateTime
  const valuesOf = (member: 'p50Ms' | 'p95Ms') => filled.map(({ entry }) => entry?.[member] ?? null)
  return (
    <div class="flex flex-col gap-6">
      <dl class="flex flex-wrap gap-x-8 gap-y-3 tabular-nums">
        <Figure name="Requests" value={number(total.requests)} />
        <Figure name="Errors" value={number(errors)} isBad={errors > 0} />
        <Figure name="p50" value={total.p50Ms === null ? '–' : duration(total.p50Ms)} />
        <Figure name="p95" value={total.p95Ms === null ? '–' : duration(total.p95Ms)} />
        <Figure name="Sent" value={bytes(total.bytesSent)} />
      </dl>
      <div class="grid gap-6 lg:grid-cols-2">
        <Chart
          label="Requests over time"
          times={times}
          series={[{ name: 'requests', colour: 1, values: filled.map(({ entry }) => entry?.requests ?? 0) }]}
          showValue={shortNumber}
          showTime={showTime}
        />
        <Chart
          label="Duration over time"
          times={times}
          series={[
            { name: 'p50', colour: 1, values: valuesOf('p50Ms') },
            { name: 'p95', colour: 2, values: valuesOf('p95Ms') },
          ]}
          showValue={duration}
          showTime={showTime}
        />
      </div>
    </div>
  )
}

function Figure({ name, value, isBad = false }: { name: string; value: string; isBad?: boolean }) {
  return (
    <div>
      <dt class="text-note text-soft">{name}</dt>
      <dd class={`text-heading font-semibold tracking-tight ${isBad ? 'text-bad' : ''}`}>{value}</dd>
    </div>
  )
}
