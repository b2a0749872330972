import { and, eq } from 'drizzle-orm'
import type { TenancyDeps } from '../deps.ts'
import { members, organizations } from '../organizations/table.ts'
import { profiles } from '../profiles/table.ts'
import { hashToken } from './invitations.ts'
import { nameOf } from './inviter.ts'
import { isLive, mayInvite } from './live.ts'
import { invitations } from '../organizations/invitations-table.ts'

const LIFETIME_SECONDS = 3_600
/** 256 bits in base64url. */
const TOKEN = /^[\w-]{43}$/
/** Code points of a name: the page's address, which carries the assertion, stays below what browsers and proxies take. */
const NAME_LENGTH_MAX = 100

const cut = (name: string): string => Array.from(name).slice(0, NAME_LENGTH_MAX).join('')

/**
 * Asserts to the identity provider what a link invites to: a JWT (ES256, typ `invitation+jwt`) that is good for an hour (D112).
 * Changes nothing. Returns undefined for a token that is malformed or unknown, or whose invitation no longer counts.
 */
export async function assertInvitation(
  {
    db,
    now,
    keySet,
    publicUrl,
    idpUrl,
    consoleUrl,
  }: Pick<TenancyDeps, 'db' | 'now' | 'keySet' | 'publicUrl' | 'idpUrl' | 'consoleUrl'>,
  token: string,
): Promise<string | undefined> {
  if (!TOKEN.test(token)) return undefined
  const time = now()
  const [row] = await db
    .select({
      id: invitations.id,
      email: invitations.email,
      role: invitations.role,
      organization: organizations.name,
      inviterRole: members.role,
      // Flat: of a nested object whose first column is null Drizzle makes null.
      inviterEmail: profiles.email,
      givenName: profiles.givenName,
      familyName: profiles.familyName,
    })
    .from(invitations)
    .innerJoin(organizations, eq(organizations.id, invitations.organizationId))
    .innerJoin(
      members,
      and(eq(members.organizationId, invitations.organizationId), eq(members.userId, invitations.invitedByUserId)),
    )
    .leftJoin(profiles, eq(profiles.userId, members.userId))
    .where(and(eq(invitations.tokenHash, hashToken(token)), isLive(time)))
  if (!row || !mayInvite(row.inviterRole, row.role)) return undefined
  const { id, email, role, organization, inviterEmail, givenName, familyName } = row
  const iat = Math.floor(time.getTime() / 1_000)
  return keySet.sign('invitation+jwt', {
    iss: publicUrl,
    aud: idpUrl,
    jti: id,
    iat,
    exp: iat + LIFETIME_SECONDS,
    email,
    role,
    organization: cut(organization),
    inviter: cut(nameOf({ email: inviterEmail, givenName, familyName }) ?? 'somebody'),
    ...(consoleUrl !== undefined && { console: consoleUrl }),
  })
}
