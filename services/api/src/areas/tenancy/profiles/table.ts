import { instant } from '@platform/runtime/columns'
import { pgTable, text } from 'drizzle-orm/pg-core'

/** What is known of a user from the identity provider. For display only, never for decisions (D73). */
export const profiles = pgTable('profiles', {
  /** `sub` of the identity provider. */
  userId: text('user_id').primaryKey(),
  email: text(),
  givenName: text('given_name'),
  familyName: text('family_name'),
  imageUrl: text('image_url'),
  learnedAt: instant('learned_at').notNull(),
})
