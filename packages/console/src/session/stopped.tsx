import { platformName } from '@platform/look/name'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../parts/button.tsx'
import { Mark } from '../parts/mark.tsx'
import type { Stop } from './session.ts'

const texts: Record<Stop, { title: string; text: string }> = {
  'signed-out': { title: 'You are signed out', text: 'In all windows of this browser.' },
  refused: { title: 'The sign-in did not succeed', text: 'The identity provider sent you back without it.' },
  'not-begun': {
    title: 'This sign-in was not begun here',
    text: 'Somebody came back from a sign-in that this window does not know: by an old link, or from another window.',
  },
  unreachable: { title: 'The sign-in was not reached', text: 'Try again in a moment.' },
  'not-accepted': {
    title: 'The platform does not accept this sign-in',
    text: 'You signed in, but the API refuses it. Its operator can tell why: the two services may not know each other.',
  },
  ended: {
    title: 'Your session has ended',
    text: 'It was ended from another device, has expired, or the console was taken away. You come back to this page.',
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
  const { title, text } = texts[stop]
  return (
    <Card title={title}>
      <p class="text-soft">{text}</p>
      {sentence !== undefined && <p class="break-words">{sentence}</p>}
      <Button kind="main" onClick={signIn}>
        {stop === 'signed-out' ? 'Sign in' : 'Sign in again'}
      </Button>
    </Card>
  )
}

/** While the person is taken to the provider and back; what takes less than half a second says nothing. */
export function OnTheWay() {
  const [isShown, show] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => show(true), 500)
    return () => clearTimeout(timer)
  }, [])
  return (
    <main class={`grid min-h-dvh place-items-center ${isShown ? '' : 'invisible'}`}>
      <p role="status" class="flex items-center gap-2 text-soft">
        <Mark /> Signing in
      </p>
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
