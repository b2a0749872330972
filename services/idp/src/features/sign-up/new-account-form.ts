import { html } from 'hono/html'
import { z } from 'zod'
import type { Markup } from '../../site/answer-page.ts'
import { fieldProblem } from '../../site/field-problem.ts'
import { textField } from '../../site/page.ts'
import { newPasswordFields } from '../password/new-password-fields.ts'

const NAME_LENGTH_MAX = 100

/** Why the form was refused, and at which of its fields. */
export interface NewAccountProblem {
  text: string
  field: 'givenName' | 'familyName' | 'password'
  status: 400 | 503
}

/** The form of a new account: names, and the way to sign in that its two buttons choose. */
export const newAccountSchema = z.object({
  givenName: textField,
  familyName: textField,
  new: textField,
  again: textField,
  way: textField,
})

/** A name as it is stored. */
const normalise = (text: string): string => text.normalize('NFC').trim()

/** Why a name cannot be stored. */
function problemOf(name: string): string | undefined {
  if (Array.from(name).length > NAME_LENGTH_MAX) return `A name has at most ${NAME_LENGTH_MAX} characters.`
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(name)) return 'A name is one line of text.'
  // They would turn the text around the name as well.
  if (/[\u202a-\u202e\u2066-\u2069]/u.test(name)) return 'A name has no signs that change the direction of text.'
  return name === '' || /[\p{L}\p{N}]/u.test(name) ? undefined : 'A name has at least one letter or digit.'
}

/** The names of the form, trimmed and in NFC, and why they are refused, if they are; a family name is optional. */
export function readNames(form: z.output<typeof newAccountSchema>): {
  names: { givenName: string; familyName: string | null }
  problem: NewAccountProblem | undefined
} {
  const given = normalise(form.givenName)
  const family = normalise(form.familyName)
  const ofGiven = given === '' ? 'Tell us your given name.' : problemOf(given)
  const ofFamily = problemOf(family)
  const text = ofGiven ?? ofFamily
  return {
    names: { givenName: given, familyName: family || null },
    problem:
      text === undefined ? undefined : { text, field: ofGiven === undefined ? 'familyName' : 'givenName', status: 400 },
  }
}

/**
 * The fields and buttons of the form, below its hidden fields. With `way=passkey` the password stays empty: the page leads on to
 * where passkeys are made. That button takes JavaScript, so it is hidden until the script runs.
 */
export const newAccountFields = (
  names: { givenName: string; familyName: string },
  { button, problem }: { button: string; problem?: NewAccountProblem | undefined },
): Markup => html`
  <label>
    Given name
    <input
      name="givenName"
      value="${names.givenName}"
      autocomplete="given-name"
      required
      maxlength="${NAME_LENGTH_MAX}"
      ${problem === undefined || problem.field === 'givenName' ? html`autofocus` : ''}
      ${fieldProblem(problem?.field === 'givenName' ? problem : undefined)}
    />
  </label>
  <label>
    Family name (optional)
    <input
      name="familyName"
      value="${names.familyName}"
      autocomplete="family-name"
      maxlength="${NAME_LENGTH_MAX}"
      ${fieldProblem(problem?.field === 'familyName' ? problem : undefined)}
    />
  </label>
  ${newPasswordFields(problem?.field === 'password' ? problem : undefined)}
  <button type="submit" name="way" value="password">${button}</button>
  <div data-with-passkeys hidden>
    <p class="or">or</p>
    <button type="submit" name="way" value="passkey" class="second" formnovalidate>
      Use a passkey in place of a password
    </button>
  </div>
`
