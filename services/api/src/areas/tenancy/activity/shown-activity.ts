import type { activities } from './table.ts'

/** An activity as its stream and its list show it. The id is its number, which is its own within the application. */
export const shownActivity = ({
  number,
  type,
  applicationId,
  actor,
  subject,
  createdAt,
}: typeof activities.$inferSelect) => ({ id: String(number), type, applicationId, actor, subject, createdAt })
