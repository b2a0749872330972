import type { TestPlatform } from '@platform/testing/platform'
import { asc, eq } from 'drizzle-orm'
import { aiUsageEvents } from '../src/areas/ai/governance/table.ts'

/** What `local/echo` answers to a text. */
export const echoOf = (text: string): string => `local/echo is no language model; it repeats: ${text}`

/** The usage events of an organization, oldest first. Those of calls that were answered are among them. */
export async function usageOf(
  { api }: TestPlatform,
  organizationId: string,
): Promise<(typeof aiUsageEvents.$inferSelect)[]> {
  await api.usage.flush()
  return api.db
    .select()
    .from(aiUsageEvents)
    .where(eq(aiUsageEvents.organizationId, organizationId))
    .orderBy(asc(aiUsageEvents.id))
}
