import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { index, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core'

/** A service's signing keys, in its own database. The private part is sealed; the kid is its associated data. */
export const signingKeys = pgTable(
  'signing_keys',
  {
    /** RFC 7638 thumbprint. */
    kid: text().primaryKey(),
    alg: text().$type<'RS256' | 'ES256'>().notNull(),
    /** Public JWK as published in the JWKS. */
    publicJwk: text('public_jwk').notNull(),
    ciphertext: bytea().notNull(),
    kekId: text('kek_id').notNull(),
    publishAt: instant('publish_at').notNull(),
    activatesAt: instant('activates_at').notNull(),
    /** When it leaves the JWKS; set when its successor is created. */
    retiresAt: instant('retires_at'),
    createdAt: instant('created_at')
      .notNull()
      .default(sql`now()`),
  },
  (t) => [uniqueIndex('signing_keys_activates_at').on(t.activatesAt), index('signing_keys_retires_at').on(t.retiresAt)],
)
