import { and, eq, isNull, sql } from 'drizzle-orm'
import { productWithdrawals, users } from '../accounts/table.ts'
import { clients } from '../clients/table.ts'

/** Columns of the account that redemption checks (B §5), and what tokens tell of it (D112); read along with the grant. */
export const accountColumns = {
  id: users.id,
  email: users.email,
  emailVerified: users.emailVerified,
  suspendedAt: users.suspendedAt,
  joined: users.joined,
}

/** Joins the withdrawal of the client's required product, if there is one. */
export const isWithdrawn = and(
  eq(productWithdrawals.userId, users.id),
  eq(productWithdrawals.product, clients.requiredProduct),
)

/** The enabled client of the request. */
export const isClientOfRequest = and(eq(clients.id, sql.placeholder('clientId')), isNull(clients.disabledAt))
