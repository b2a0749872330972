import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { csrfBeforeSession, csrfOfSession } from '../../site/csrf.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { returnToPage } from '../../site/return-to.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { findLinkOwner } from '../links/one-time-links.ts'
import { mailVerification, verifyEmail } from './verify-email.ts'

const ASK = 'verify-email'
const purposeOf = (token: string): string => `verify-email\n${token}`

/** Shows whether the address is confirmed, and offers to confirm it. */
function showEmail({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  const { email, emailVerified } = session.user
  const back = html`<p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>`
  if (emailVerified)
    return answerPage(c, deps, {
      title: 'Email address confirmed',
      content: html`<p><strong>${email}</strong> is confirmed to be yours. There is nothing left to do.</p>
        ${back}`,
    })
  return answerPage(c, deps, {
    title: 'Confirm your email address',
    content: html`
      <p><strong>${email}</strong> is not confirmed yet. Some applications let you in only once it is.</p>
      ${
        deps.mailer
          ? html`<form method="post" action="${deps.accountUrl}/email">
              <input type="hidden" name="csrf" value="${csrfOfSession(session, ASK)}" />
              <button type="submit">Mail me a link</button>
            </form>`
          : html`<p class="empty">This service sends no mail. Ask whoever runs it to confirm your address.</p>`
      }
      ${back}
    `,
  })
}

/** Mails a confirmation link. */
async function ask({ c, deps, session }: PageCall<'any'>): Promise<Response> {
  if (session.user.emailVerified || !deps.mailer) return redirect(c, returnToPage(deps, 'email').url)
  const mailed = await mailVerification(deps, deps.mailer, session.user)
  if (mailed.kind === 'paused')
    return answerPage(c, deps, {
      title: 'That is enough for now',
      status: 429,
      content: html`<p>
          ${tellPause(c, mailed.waitSeconds, 'You have asked for several links within an hour')} Those that you got
          still work.
        </p>
        <p class="back"><a href="${deps.accountUrl}/">Back to your account</a></p>`,
    })
  return answerPage(c, deps, {
    title: 'Look into your inbox',
    content: html`<p>
        A link is on its way to <strong>${session.user.email}</strong>. It works once, and for 24 hours.
      </p>
      <p class="soft">Nothing there after a few minutes? Look among unwanted mail, then ask for another.</p>
      <p class="back"><a href="${deps.accountUrl}/email">Ask for another link</a></p>`,
  })
}

function answerGone(c: Ctx, deps: Deps): Promise<Response> {
  return answerPage(c, deps, {
    title: 'This link no longer works',
    status: 400,
    content: html`<p>It was used already, or its 24 hours are over.</p>
      <p><a href="${deps.accountUrl}/email">Look at your address, or ask for another link</a></p>`,
  })
}

/** The target of a mailed link. It only shows a button, since mail scanners open links too. */
async function showVerify({ c, deps, field }: PageCall<'none'>): Promise<Response> {
  const token = field('token') ?? ''
  const owner = await findLinkOwner(deps, 'verify-email', token)
  if (!owner) return answerGone(c, deps)
  return answerPage(c, deps, {
    title: 'Confirm your email address',
    content: html`
      <p>Is <strong>${owner.email}</strong> your address?</p>
      <form method="post" action="${deps.accountUrl}/verify-email">
        <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, purposeOf(token))}" />
        <input type="hidden" name="token" value="${token}" />
        <button type="submit">Confirm</button>
      </form>
    `,
  })
}

async function verify({ c, deps, form }: FormCall<'none', typeof link>): Promise<Response> {
  if (!(await verifyEmail(deps, form.token))) return answerGone(c, deps)
  return answerPage(c, deps, {
    title: 'Email address confirmed',
    content: html`<p>Thank you. You can close this page.</p>
      <p><a href="${deps.accountUrl}/">Go to your account</a></p>`,
  })
}

const link = z.object({ token: textField })

export const emailPages = [
  page({
    path: '/email',
    session: 'any',
    back: 'email',
    show: showEmail,
    form: z.object({}),
    csrf: ASK,
    submit: ask,
  }),
  page({
    path: '/verify-email',
    // The link itself proves that the mail arrived.
    session: 'none',
    show: showVerify,
    form: link,
    csrf: ({ field }) => purposeOf(field('token') ?? ''),
    submit: verify,
  }),
]
