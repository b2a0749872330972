import { html } from 'hono/html'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'
import { readCookie } from '../../site/cookies.ts'
import { csrfBeforeSession } from '../../site/csrf.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { findSignUp, formatCode, readCode, type StartedSignUp, takeCode } from './sign-up.ts'

const PURPOSE = 'sign-up-code'

const beginAgain = ({ accountUrl }: Deps, started: StartedSignUp | undefined): string =>
  `${accountUrl}/sign-up${started ? `?returnTo=${encodeURIComponent(started.returnTo)}` : ''}`

/** The letter's code counts no more, or nothing was begun in this browser. */
const answerOver = (c: Ctx, deps: Deps, started: StartedSignUp | undefined): Promise<Response> =>
  answerPage(c, deps, {
    title: started ? 'This code is over' : 'Nothing was begun here',
    status: 400,
    content: html`<p>
        ${
          started
            ? 'Its 10 minutes have passed, or five other codes were typed. Ask for another one.'
            : 'An account is created in the browser in which it was begun, with cookies allowed.'
        }
      </p>
      <p>
        <a class="button" href="${beginAgain(deps, started)}"
          >${started ? 'Ask for another code' : 'Create an account'}</a
        >
      </p>`,
  })

/** In a browser that did not ask, the link only shows the code: whoever began is elsewhere, and may be somebody else. */
const answerElsewhere = (c: Ctx, deps: Deps, code: string): Promise<Response> =>
  answerPage(c, deps, {
    title: 'Your code',
    content: html`<p class="code">${formatCode(code)}</p>
      <p>Type it where you began to create your account.</p>
      <div class="alert warn">
        <p>
          <strong>If you began nothing, close this page.</strong> Give the code to nobody: whoever has it could create
          an account with your address.
        </p>
      </div>`,
  })

const answerForm = (
  c: Ctx,
  deps: Deps,
  { email, returnTo }: StartedSignUp,
  { code = '', problem }: { code?: string | undefined; problem?: string },
): Promise<Response> =>
  answerPage(c, deps, {
    title: 'Look into your inbox',
    status: problem === undefined ? 200 : 400,
    content: html`
      <p>A letter is on its way to <strong>${email}</strong>.</p>
      ${
        deps.mailFolderShown === undefined
          ? ''
          : html`<p class="soft">On this machine letters are files in <code>${deps.mailFolderShown}</code></p>`
      }
      ${problem === undefined ? '' : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
      <form method="post" action="${deps.accountUrl}/sign-up/code">
        <input type="hidden" name="csrf" value="${csrfBeforeSession(c, deps, PURPOSE)}" />
        <label>
          Code
          <input
            class="code-entry"
            name="code"
            value="${code}"
            placeholder="XXXX-XXXX"
            autocomplete="one-time-code"
            autocapitalize="characters"
            spellcheck="false"
            maxlength="20"
            required
            autofocus
            ${fieldProblem(problem === undefined ? undefined : { status: 400 }, 'how')}
          />
        </label>
        <p class="soft" id="how">
          It works for 10 minutes. Nothing there yet? Look among unwanted mail, and check that the address is right.
        </p>
        <button type="submit">Continue</button>
      </form>
      <p class="back">
        <a href="${deps.accountUrl}/sign-up?returnTo=${encodeURIComponent(returnTo)}"
          >Another address, or another letter</a
        >
      </p>
    `,
  })

const toNames = (c: Ctx, { accountUrl }: Deps): Response => redirect(c, `${accountUrl}/sign-up/name`)

/** The target of the letter's link, and the page that a start leads to. Looking changes nothing: mail scanners open links. */
async function showCode({ c, deps, field }: PageCall<'none'>): Promise<Response> {
  const code = readCode(field('code') ?? '')
  const started = await findSignUp(deps, readCookie(c, deps, 'before'))
  if (started?.state === 'proven') return toNames(c, deps)
  if (started?.state === 'typing') return answerForm(c, deps, started, { code: code && formatCode(code) })
  return code === undefined || started ? answerOver(c, deps, started) : answerElsewhere(c, deps, code)
}

const typed = z.object({ code: textField })

async function take({ c, deps, form }: FormCall<'none', typeof typed>): Promise<Response> {
  const browser = readCookie(c, deps, 'before') ?? ''
  const started = await findSignUp(deps, browser)
  // As after a double click: what this browser has proven needs no second code.
  if (started?.state === 'proven') return toNames(c, deps)
  const taken = started ? await takeCode(deps, browser, readCode(form.code)) : 'over'
  if (taken === 'proven') return toNames(c, deps)
  if (!started || taken === 'over') return answerOver(c, deps, started)
  return answerForm(c, deps, started, {
    problem: 'This is not the code of the last letter. Compare them; after five tries it is over.',
  })
}

export const codePage = page({
  path: '/sign-up/code',
  session: 'none',
  show: showCode,
  form: typed,
  csrf: PURPOSE,
  submit: take,
})
