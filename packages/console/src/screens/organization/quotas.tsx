import type { Quota, Quotas } from '@platform/sdk'
import { Fact, Facts, Unknown } from '../../parts/page.tsx'
import { now } from '../../platform/now.ts'
import { binaryBytes, counted, dateTime, dollars, number, until, utc } from '../../words.ts'

const MIB = 1_048_576

interface Words {
  word: string
  say: (value: number) => string
  /** When a count without a period goes down. */
  falls?: string
  /** Whether what is old makes room by itself. */
  isCache?: boolean
}

/** What a quota counts, and how its numbers are read. */
const quotaWords: Readonly<Record<string, Words>> = {
  applications: { word: 'Applications', say: number, falls: 'never' },
  deployments_per_day: { word: 'Deployments a day', say: number },
  build_minutes_per_month: { word: 'Build minutes a month', say: number },
  function_hours_per_month: { word: 'Function hours a month', say: number },
  concurrent_builds: { word: 'Builds at a time', say: number, falls: 'when a build ends' },
  stored_bytes: { word: 'Stored objects, trash included', say: binaryBytes, falls: 'when objects are purged' },
  image_cache_bytes: {
    word: 'Image cache',
    say: binaryBytes,
    isCache: true,
    falls: 'by itself: the least recently used make room',
  },
  invitations_per_day: { word: 'Invitations a day', say: number },
  organizations_per_owner: { word: 'Organizations that an owner may have', say: number },
  archive_bytes: { word: 'Archive of a deployment', say: binaryBytes },
  unpacked_bytes: { word: 'Files of a deployment', say: binaryBytes },
  minutes_per_build: { word: 'Time of a build', say: (value) => counted(value, 'minute') },
  build_memory_mb: { word: 'Memory of a build', say: (value) => binaryBytes(value * MIB) },
  build_disk_mb: { word: 'Disk of a build', say: (value) => binaryBytes(value * MIB) },
  function_slots: { word: 'Processes of a Function on a machine', say: number },
  function_memory_mb: { word: 'Memory of a Function', say: (value) => binaryBytes(value * MIB) },
  log_retention_days: { word: 'Logs are kept for', say: (value) => counted(value, 'day') },
} satisfies Record<Quota['name'], Words>

/** An API that is newer than the console may have quotas that it does not know. */
const wordsOf = (name: string): Words => quotaWords[name] ?? { word: name, say: number }

/** What is counted, with what is left of it; then what limits each thing by itself. */
export function QuotaTables({ quotas: { items, billing } }: { quotas: Quotas }) {
  const counts = items.flatMap((quota) => (quota.used === null ? [] : [{ ...quota, used: quota.used }]))
  const limits = items.filter(({ used }) => used === null)
  return (
    <div class="flex flex-col gap-6">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Quota</th>
            <th scope="col" class="figure">
              Used
            </th>
            <th scope="col">
              <span class="sr-only">Share</span>
            </th>
            <th scope="col">Resets</th>
          </tr>
        </thead>
        <tbody>
          {counts.map(({ name, used, limit, windowEnd }) => (
            <Count key={name} words={wordsOf(name)} used={used} limit={limit} windowEnd={windowEnd} />
          ))}
          <Count
            words={{ word: 'Spending beyond the plan', say: dollars }}
            used={billing.spentMicros}
            limit={billing.capMicros}
            windowEnd={billing.windowEnd}
          />
        </tbody>
      </table>
      <Facts>
        {limits.map(({ name, limit }) => (
          <Fact key={name} name={wordsOf(name).word}>
            {wordsOf(name).say(limit)}
          </Fact>
        ))}
      </Facts>
    </div>
  )
}

/** limit: null for spending without a cap, which is none at all. */
function Count({
  words: { word, say, falls, isCache = false },
  used,
  limit,
  windowEnd,
}: {
  words: Words
  used: number
  limit: number | null
  windowEnd: string | null
}) {
  const isFull = limit !== null && used >= limit && !isCache
  return (
    <tr>
      <td class="font-medium max-sm:basis-full">{word}</td>
      <td class={`figure ${isFull ? 'font-medium text-bad' : ''}`}>
        {limit === null ? say(used) : `${say(used)} of ${say(limit)}`}
        {isFull && ', used up'}
      </td>
      <td class="max-sm:basis-full sm:w-1/4">
        {limit !== null && <Bar share={limit === 0 ? 1 : Math.min(1, used / limit)} isFull={isFull} />}
      </td>
      {limit === null ? (
        <td class="text-soft max-sm:basis-full">No cap is set: nothing beyond the plan can be spent</td>
      ) : (
        <td class="max-sm:basis-full" data-label="Resets">
          {windowEnd === null ? <span class="text-soft">{falls ?? <Unknown />}</span> : <Reset windowEnd={windowEnd} />}
        </td>
      )}
    </tr>
  )
}

/** The share of a quota, for the eye: the figures stand beside it. */
function Bar({ share, isFull }: { share: number; isFull: boolean }) {
  return (
    <svg class="mt-1.5 h-2 w-full" aria-hidden="true">
      <rect width="100%" height="100%" rx="4" class="fill-line" />
      <rect width={`${share * 100}%`} height="100%" rx="4" class={isFull ? 'fill-bad' : 'fill-accent'} />
    </svg>
  )
}

function Reset({ windowEnd }: { windowEnd: string }) {
  const date = new Date(windowEnd)
  return (
    <time dateTime={windowEnd} title={`${dateTime(date)} · ${utc(date)}`}>
      {until(date, now.value)}
    </time>
  )
}
