import { platformName } from '@platform/look/name'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../parts/button.tsx'
import { Mark } from '../parts/mark.tsx'
import { session, type Stop } from './session.ts'

const texts: Record<Stop, { title: string; text: string; button: string }> = {
  'signed-out': { title: 'You are signed out', text: 'So is every other window of this browser.', button: 'Sign in' },
  'half-signed-out': {
    title: 'You are signed out here, but not at the identity provider',
    text: 'It does not answer, and its session goes on: the console opens in this browser without a password. Sign in and out again in a moment.',
    button: 'Sign in again',
  },
  refused: {
    title: 'The sign-in was refused',
    text: 'The identity provider gives this reason:',
    button: 'Sign in again',
  },
  'wrong-answer': {
    title: 'The sign-in did not succeed',
    text: 'An answer does not fit the sign-in that this window began, so it was not used. If this happens again, the operator of the platform can tell why.',
    button: 'Sign in again',
  },
  'not-begun': {
    title: 'This window did not begin a sign-in',
    text: 'You came back from the identity provider by an old link, by the Back button, or from another window.',
    button: 'Sign in',
  },
  unreachable: {
    title: 'The platform does not answer',
    text: 'A sign-in needs the API and the identity provider. Try again in a moment.',
    button: 'Try again',
  },
  'not-accepted': {
    title: 'The platform does not accept this sign-in',
    text: 'You signed in, but the API refuses it. Its operator can tell why: the two services may not know each other.',
    button: 'Sign in again',
  },
  ended: {
    title: 'Your session has ended',
    text: 'It was ended elsewhere, it expired, or you may not use the console any more. After signing in you come back to this page.',
    button: 'Sign in again',
  },
}

function Card({ title, children }: { title: string; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · ${platformName}`
    heading.current?.focus()
  }, [title])
  return (
    <main class="mx-auto flex min-h-dvh max-w-[27rem] flex-col justify-center gap-6 p-6">
      <p class="flex items-center gap-2 text-field font-semibold">
        <Mark /> {platformName}
      </p>
      <div class="flex flex-col items-start gap-4 rounded-control border border-line bg-surface p-6">
        <h1 ref={heading} tabIndex={-1} class="text-heading font-semibold tracking-tight">
          {title}
        </h1>
        {children}
      </div>
    </main>
  )
}

/** The end of a session, or of an attempt: what happened, and a way on that the person takes. */
export function Stopped({ stop, sentence, signIn }: { stop: Stop; sentence: string | undefined; signIn: () => void }) {
  const { title, text, button } = texts[stop]
  return (
    <Card title={title}>
      <p class="text-soft">{text}</p>
      {sentence !== undefined && <p class="break-words">{sentence}</p>}
      <Button kind="main" onClick={signIn}>
        {button}
      </Button>
    </Card>
  )
}

/** While the person is taken to the provider and back; what takes less than half a second says nothing. */
export function OnTheWay() {
  const { value } = session
  const [isShown, show] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => show(true), 500)
    return () => clearTimeout(timer)
  }, [])
  return (
    <main class={`grid min-h-dvh place-items-center ${isShown ? '' : 'invisible'}`}>
      <h1 class="flex items-center gap-2 text-soft">
        <Mark /> {value.state === 'on-the-way' && value.to === 'sign-out' ? 'Signing out' : 'Signing in'}
      </h1>
    </main>
  )
}

/** The origin that serves the console does not answer. */
export function NotReached({ sentence }: { sentence: string }) {
  return (
    <Card title="The console was not reached">
      <p class="break-words text-soft">{sentence}</p>
      <Button kind="main" onClick={() => location.reload()}>
        Try again
      </Button>
    </Card>
  )
}
