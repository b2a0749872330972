import { minuteOf } from '@platform/build-output/cron-schedule'
import type { Cron } from '@platform/build-output/manifest'
import type { TestPlatform } from '@platform/testing/platform'
import { queueDueCrons, takeDueCron } from '../src/areas/edge/crons/cron-worker.ts'
import { deploy, type Deployed } from './deploy.ts'
import type { Owner } from './scenario.ts'

/** A run as the API shows it. */
export interface ShownRun {
  id: string
  trigger: 'schedule' | 'manual'
  dueAt: string
  startedAt: string | null
  completedAt: string | null
  durationMs: number | null
  status: number | null
  outcome: 'succeeded' | 'failed' | null
  error: string | null
}

interface ShownCron extends Cron {
  id: string
  isActive: boolean
  nextRunAt: string | null
  lastRun: ShownRun | null
}

/** A site of plain files that has crons. */
export const deployCrons = (
  platform: TestPlatform,
  owner: Owner,
  crons: Cron[],
  more: Pick<Parameters<typeof deploy>[2], 'environment' | 'isCurrent' | 'status'> = {},
): Promise<Deployed> =>
  deploy(platform, owner, {
    files: Object.fromEntries(crons.map(({ path }) => [path.slice(1), 'done'])),
    output: { crons },
    ...more,
  })

export const cronsOf = async (platform: TestPlatform, { token }: Owner, id: string) =>
  (await platform.call(token, `GET /deployments/${id}/crons`)).body as { items: ShownCron[]; total: number }

/** The only cron of a deployment. */
export async function cronOf(platform: TestPlatform, owner: Owner, id: string): Promise<ShownCron> {
  const { items } = await cronsOf(platform, owner, id)
  if (items.length !== 1 || !items[0]) throw new Error(`It has ${items.length} crons`)
  return items[0]
}

export const runsOf = async (platform: TestPlatform, owner: Owner, id: string, query = '') => {
  const { id: cronId } = await cronOf(platform, owner, id)
  return (await platform.call(owner.token, `GET /deployments/${id}/crons/${cronId}/runs${query}`)).body as {
    items: ShownRun[]
    total: number
  }
}

const never = new AbortController().signal

/** Takes the crons that wait, as a worker does, and waits for their runs. */
export async function runWaiting({ api }: Pick<TestPlatform, 'api'>): Promise<void> {
  for (let taken = await takeDueCron(api, never); taken; taken = await takeDueCron(api, never)) await taken.end
}

/** What a worker does in the minute of the clock. */
export async function runMinute(platform: Pick<TestPlatform, 'api'>): Promise<Date> {
  const minute = minuteOf(platform.api.now())
  await queueDueCrons(platform.api, minute)
  await runWaiting(platform)
  return minute
}
