import { z } from 'zod'
import { readCronSchedule } from './cron-schedule.ts'
import type { Cron } from './manifest.ts'
import { UnusableOutput } from './output.ts'
import { parseManifest } from './read-json.ts'

const CRONS_MAX = 100
const PATH_BYTES_MAX = 2_048
const SCHEDULE_LENGTH_MAX = 256

/** `crons` of config.json; each is parsed separately, so that an error names it. */
export const cronsSchema = z.array(z.unknown()).max(CRONS_MAX, `a deployment has at most ${CRONS_MAX}`)

const cronSchema = z.object({
  path: z
    .string()
    .startsWith('/', 'it has to begin with /')
    .max(PATH_BYTES_MAX, `it has more than ${PATH_BYTES_MAX} bytes`)
    .regex(/^[!"$-~]*$/, 'it has to be percent-encoded, without a fragment'),
  schedule: z.string().max(SCHEDULE_LENGTH_MAX, `it has more than ${SCHEDULE_LENGTH_MAX} characters`),
})

/**
 * Reads the crons of a deployment, and normalizes their schedules to one space between fields. Duplicates are merged.
 *
 * name: of the file, for errors. Throws UnusableOutput that names the error.
 */
export async function readCrons(crons: readonly unknown[], name: string): Promise<Cron[]> {
  const read = new Map<string, Cron>()
  for (const [index, cron] of crons.entries()) {
    const where = `${name}: crons[${index}]`
    const { path, schedule: written } = parseManifest(cronSchema, cron, where)
    const schedule = written.trim().replaceAll(/\s+/g, ' ')
    try {
      await readCronSchedule(schedule)
    } catch (error) {
      const reason = error instanceof Error ? error.message.replace(/\.$/, '') : ''
      throw new UnusableOutput(`${where}: ${JSON.stringify(written)} is no cron expression: ${reason}.`, {
        cause: error,
      })
    }
    read.set(`${schedule} ${path}`, { path, schedule })
  }
  return [...read.values()]
}
