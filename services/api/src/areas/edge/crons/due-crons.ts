import { type CronSchedule, readCronSchedule } from '@platform/build-output/cron-schedule'
import { entriesMax } from '@platform/runtime/entries-max'
import { and, eq } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { EdgeDeps } from '../deps.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { slotOf } from '../../deploy/deployments/crons.ts'
import type { DueCron } from './queue.ts'
import { deploymentCrons } from '../../deploy/deployments/table.ts'

const schedules = new LRUCache<string, CronSchedule>({ ...entriesMax(10_000) })

/** Parses a schedule, with a cache for repeated look-ups. */
export async function scheduleOf(text: string): Promise<CronSchedule> {
  let schedule = schedules.get(text)
  if (!schedule) schedules.set(text, (schedule = await readCronSchedule(text)))
  return schedule
}

/** Joins the environment that runs a cron: a production environment whose current deployment has it. */
export const isEnvironmentOfCron = and(
  eq(environments.currentDeploymentId, deploymentCrons.deploymentId),
  eq(environments.slug, 'production'),
)

/**
 * The crons of all production environments that are due in a minute. Unreadable schedules are logged and do not hold up others.
 */
export async function findDueCrons({ db, logger }: Pick<EdgeDeps, 'db' | 'logger'>, minute: Date): Promise<DueCron[]> {
  const { id: cronId, path, schedule } = deploymentCrons
  const rows = await db
    .select({ cronId, path, schedule, environmentId: environments.id })
    .from(deploymentCrons)
    .innerJoin(environments, isEnvironmentOfCron)
  const due: DueCron[] = []
  for (const { cronId, environmentId, ...cron } of rows)
    try {
      const schedule = await scheduleOf(cron.schedule)
      if (schedule.isDueAt(minute)) due.push({ cronId, slot: slotOf(environmentId, cron), dueAt: minute })
    } catch (error) {
      logger.error({ err: error, cronId }, 'a cron cannot be read')
    }
  return due
}
