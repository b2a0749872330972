import { instant } from '@platform/runtime/columns'
import { pgTable, text } from 'drizzle-orm/pg-core'

/** What the identity provider says of a user, as far as it is known. Shown, and never used to decide anything (D73). */
export const profiles = pgTable('profiles', {
  /** `sub` of the identity provider. */
  userId: text('user_id').primaryKey(),
  email: text(),
  givenName: text('given_name'),
  familyName: text('family_name'),
  imageUrl: text('image_url'),
  learnedAt: instant('learned_at').notNull(),
})
