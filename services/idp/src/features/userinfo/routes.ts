import { InvalidToken, OAuthError } from '@platform/errors/api-error'
import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { answerJson } from '../../http/answer-json.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { hasForm, readForm } from '../../http/body.ts'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { users } from '../accounts/table.ts'

const lookups = keysAsRows({ id: 'uuid' })

/** Looks up the subjects of all tokens that arrive in one event loop tick. */
const findSubject = lazyPrepared((db) => {
  const query = db
    .select({
      n: lookups.n,
      email: users.email,
      emailVerified: users.emailVerified,
      givenName: users.givenName,
      familyName: users.familyName,
      preferredUsername: users.preferredUsername,
      picture: users.picture,
      locale: users.locale,
      zoneinfo: users.zoneinfo,
      updatedAt: users.updatedAt,
    })
    .from(lookups.from)
    .innerJoin(users, eq(users.id, lookups.columns.id))
    .prepare('userinfo_subjects')
  return batchPerTick(async (keys: readonly { id: string }[]) =>
    lookups.inOrder(keys, await query.execute(lookups.parameters(keys))),
  )
})

type Subject = NonNullable<Awaited<ReturnType<ReturnType<typeof findSubject>>>>

/** The claims that the scopes permit (OpenID Connect Core §5.4); unknown values are omitted. */
function claimsOf(user: Subject, scopes: ReadonlySet<string>): Record<string, unknown> {
  const name = [user.givenName, user.familyName].filter((part) => part !== null).join(' ')
  const profile = {
    name: name === '' ? null : name,
    given_name: user.givenName,
    family_name: user.familyName,
    preferred_username: user.preferredUsername,
    picture: user.picture,
    locale: user.locale,
    zoneinfo: user.zoneinfo,
    updated_at: Math.floor(user.updatedAt.getTime() / 1_000),
  }
  const email = { email: user.email, email_verified: user.emailVerified }
  const claims = { ...(scopes.has('profile') && profile), ...(scopes.has('email') && email) }
  return Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== null))
}

/** The bearer token of the header, or of a POSTed form if there is no header (RFC 6750 §2). */
async function readBearer(c: Ctx): Promise<string> {
  const authorization = c.req.header('authorization')
  const [, bearer] = /^bearer +([^ ]+) *$/i.exec(authorization ?? '') ?? []
  if (bearer !== undefined) return bearer
  const token = authorization === undefined && hasForm(c) ? (await readForm(c)).get('access_token') : undefined
  if (token === undefined) throw new InvalidToken('No bearer token was sent')
  return token
}

const insufficientScope = () =>
  new OAuthError(403, 'insufficient_scope', 'The token lacks the scope openid', {
    'www-authenticate':
      'Bearer error="insufficient_scope", error_description="The token lacks the scope openid", scope="openid"',
  })

/** GET and POST /oauth2/userinfo (B §4, D63). Token verification may be cached; the subject is looked up each time. */
async function userinfo(c: Ctx, deps: Deps): Promise<Response> {
  const token = await deps.verifyAccessToken(await readBearer(c))
  c.set('clientId', token.clientId)
  if (!token.scopes.has('openid')) throw insufficientScope()
  const user = await findSubject(deps.db)({ id: token.subject })
  if (!user) throw new InvalidToken('The subject of the token no longer exists')
  return answerJson({ sub: token.subject, ...claimsOf(user, token.scopes) })
}

export const userinfoEndpoint: Endpoint = { path: '/oauth2/userinfo', cors: true, GET: userinfo, POST: userinfo }
