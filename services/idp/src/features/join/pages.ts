import { Unavailable } from '@platform/errors/api-error'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage, type Markup } from '../../site/answer-page.ts'
import { csrfOfSession } from '../../site/csrf.ts'
import { type FormCall, page, type PageCall, type PageRequest, textField } from '../../site/page.ts'
import { returnToJoin } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { answerUnchecked } from '../invitations/answer-unchecked.ts'
import type { Invitation } from '../invitations/invitation.ts'
import { admissionBy, admits } from '../sign-up/admits.ts'
import { isInvited, takeInvitation } from './take-invitation.ts'

/** An invitation, and the assertion that says so. */
interface Target {
  invitation: Invitation
  assertion: string
}

const purposeOf = ({ id, issuer }: Invitation): string => `join\n${issuer}\n${id}`

const roleWords: Record<Invitation['role'], string> = {
  OWNER: 'Owner: may do everything',
  ADMIN: 'Admin: may do everything, but neither make nor remove owners',
  MEMBER: 'Member: may see everything, build and deploy',
}

/** The same for whatever is wrong: forged, expired, revoked, or not an assertion at all. */
const answerGone = (c: Ctx, deps: Deps): Promise<Response> =>
  answerPage(c, deps, {
    title: 'This invitation no longer works',
    status: 400,
    content: html`<p>
        It was taken or withdrawn, its time is over, or this page was open for more than an hour. Open the link of your
        letter again; if that leads here too, ask whoever invited you for another.
      </p>
      <p><a href="${deps.accountUrl}/">Go to your account</a></p>`,
  })

/** A name that others chose, which does not turn the text around it. */
const isolated = (name: string): Markup => html`<bdi>${name}</bdi>`

const titled = (words: string, { organization }: Invitation): { title: string; heading: Markup } => ({
  title: `${words} ${organization}`,
  heading: html`${words} ${isolated(organization)}`,
})

const whatFor = ({ inviter, organization, role, issuer, email }: Invitation): Markup => html`
  <p><strong>${isolated(inviter)}</strong> invites you to <strong>${isolated(organization)}</strong>.</p>
  <dl>
    <dt>As</dt>
    <dd>${roleWords[role]}</dd>
    <dt>For</dt>
    <dd>${email}</dd>
    <dt>At</dt>
    <dd>${new URL(issuer).host}</dd>
  </dl>
  <p class="soft">If you belong to it already, this becomes your role.</p>
`

const encodedReturnTo = (deps: Deps, assertion: string): string => encodeURIComponent(returnToJoin(deps, assertion).url)

const answerSignedOut = (c: Ctx, deps: Deps, { invitation, assertion }: Target): Promise<Response> => {
  const returnTo = encodedReturnTo(deps, assertion)
  const { email } = invitation
  return answerPage(c, deps, {
    ...titled('Join', invitation),
    content: html`${whatFor(invitation)}
      <p><a class="button" href="${deps.accountUrl}/sign-in?returnTo=${returnTo}">Sign in to join</a></p>
      ${
        admits(admissionBy(deps.signUp, invitation), email)
          ? html`<p class="after">
              No account yet?
              <a href="${deps.accountUrl}/sign-up?returnTo=${returnTo}">Create one with ${email}</a>
            </p>`
          : ''
      }`,
  })
}

const answerOther = (c: Ctx, deps: Deps, { invitation, assertion }: Target, session: Session): Promise<Response> =>
  answerPage(c, deps, {
    title: 'This invitation is for another account',
    status: 403,
    content: html`<p>
        It is for <strong>${invitation.email}</strong>. You are signed in as <strong>${session.user.email}</strong>,
        which cannot take it.
      </p>
      <p>
        <a class="button" href="${deps.accountUrl}/sign-in?returnTo=${encodedReturnTo(deps, assertion)}"
          >Use another account</a
        >
      </p>
      <p class="soft">Or ask ${isolated(invitation.inviter)} to invite ${session.user.email}.</p>`,
  })

const answerUnproven = (c: Ctx, deps: Deps, { invitation }: Target): Promise<Response> =>
  answerPage(c, deps, {
    title: 'Confirm your address first',
    status: 403,
    content: html`<p>
        <strong>${invitation.email}</strong> is not confirmed to be yours. Confirm it, then open the link of your
        invitation again.
      </p>
      <p><a class="button" href="${deps.accountUrl}/email">Confirm the address</a></p>`,
  })

/** The page that keeps this session from joining; undefined if nothing does. */
function answerObstacle(c: Ctx, deps: Deps, target: Target, session: Session): Promise<Response> | undefined {
  if (!isInvited(session.user, target.invitation)) return answerOther(c, deps, target, session)
  return session.user.emailVerified ? undefined : answerUnproven(c, deps, target)
}

/** Says who invites to what, and as whom one is signed in. Looking joins nothing. */
async function showJoin({ c, deps, target, findSession }: PageCall<'none', Target>): Promise<Response> {
  const session = await findSession()
  if (!session) return answerSignedOut(c, deps, target)
  const { invitation, assertion } = target
  return (
    answerObstacle(c, deps, target, session) ??
    answerPage(c, deps, {
      ...titled('Join', invitation),
      content: html`${whatFor(invitation)}
        <form method="post" action="${deps.accountUrl}/join/confirm">
          <input type="hidden" name="csrf" value="${csrfOfSession(session, purposeOf(invitation))}" />
          <input type="hidden" name="invitation" value="${assertion}" />
          <button type="submit">Join</button>
        </form>
        <p class="after">
          <a href="${deps.accountUrl}/sign-in?returnTo=${encodedReturnTo(deps, assertion)}">Use another account</a>
        </p>`,
    })
  )
}

const form = z.object({ invitation: textField })

/** Takes the invitation. The membership itself is made by the API, with the next token of any client (D112). */
async function join({ c, deps, target, session }: FormCall<'any', typeof form, Target>): Promise<Response> {
  const { invitation } = target
  const obstacle = answerObstacle(c, deps, target, session)
  if (obstacle) return obstacle
  if (!(await takeInvitation(deps, session.user.id, invitation))) return answerGone(c, deps)
  return answerPage(c, deps, {
    ...titled('You are joining', invitation),
    content: html`<p>
        If the invitation still stands, you are a member at once in a program that you sign in to now, and within five
        minutes in one that you are signed in to.
      </p>
      ${
        invitation.console === undefined
          ? html`<p><a href="${deps.accountUrl}/">Go to your account</a></p>`
          : html`<p><a class="button" href="${invitation.console}">Open ${new URL(invitation.console).host}</a></p>`
      }`,
  })
}

async function findInvitation({ c, deps, field }: PageRequest): Promise<Target | Response> {
  const assertion = field('invitation') ?? ''
  let invitation
  try {
    invitation = await deps.verifyInvitation(assertion)
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error
    return answerUnchecked(c, deps, returnToJoin(deps, assertion).url)
  }
  return invitation ? { invitation, assertion } : answerGone(c, deps)
}

export const joinPages = [
  page({ path: '/join', session: 'none', find: findInvitation, show: showJoin }),
  page({
    path: '/join/confirm',
    session: 'any',
    back: ({ deps, field }) => returnToJoin(deps, field('invitation')),
    find: findInvitation,
    form,
    csrf: ({ target }) => purposeOf(target.invitation),
    submit: join,
  }),
]
