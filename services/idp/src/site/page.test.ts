import { expect, test } from 'vitest'
import { z } from 'zod'
import { page, textField } from './page.ts'

const path = '/example'
const form = z.object({ name: textField })
const show = () => new Response()
const submit = show

// The compiler checks these: an expected error that does not occur fails `npm run check`.
test('a form without a guard does not compile', () => {
  expect(page({ path, session: 'any', back: 'email', form, csrf: 'example', submit }).hasForm).toBe(true)
  expect(page({ path, session: 'none', show }).hasForm).toBe(false)

  // @ts-expect-error -- no csrf
  page({ path, session: 'any', back: 'email', form, submit })
  // @ts-expect-error -- no schema of the form
  page({ path, session: 'any', back: 'email', csrf: 'example', submit })
  // @ts-expect-error -- no session beside a form
  page({ path, form, csrf: 'example', submit })
  // @ts-expect-error -- no session
  page({ path, show })
  // @ts-expect-error -- a form that nothing is done with
  page({ path, session: 'none', show, form, csrf: 'example' })
  // @ts-expect-error -- nothing to show and nothing to submit
  page({ path, session: 'none' })
  // @ts-expect-error -- no way back from sign-in
  page({ path, session: 'any', show })
  // @ts-expect-error -- a page that sign-in does not lead back to
  page({ path, session: 'any', back: 'example', show })
  // @ts-expect-error -- an answer of its own, where a second factor may be missing
  page({ path, session: 'fresh', back: () => new Response(), show })
})

test('who is signed in is there for pages that need someone, and for no others', () => {
  page({ path, session: 'fresh', back: 'passkeys/add', show: ({ session }) => new Response(session.user.email) })
  // @ts-expect-error -- nobody need be signed in
  page({ path, session: 'none', show: ({ session }) => new Response(session.user.email) })
  const named = page({
    path,
    session: 'none',
    find: async ({ findSession }) => (await findSession())?.user.email.length ?? 0,
    form,
    csrf: ({ target }) => `example\n${target.toFixed()}`,
    submit: ({ target, form }) => new Response(form.name.repeat(target)),
  })
  expect(named.session).toBe('none')
})
