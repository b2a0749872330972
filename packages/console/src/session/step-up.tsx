import { needsStepUp } from '@platform/sdk'
import { useState } from 'preact/hooks'
import { Button } from '../parts/button.tsx'
import { session, takeForm, type WaitingForm } from './session.ts'

/**
 * For a form whose change the platform may refuse to those who signed in long ago. They are sent to the provider, and come back to the form
 * as it was; the change is theirs to make again.
 *
 * name: of the form, and of what it changes.
 */
export function useStepUp(name: string) {
  /** What was filled in before the person went, if they have just come back. */
  const [waited] = useState(() => takeForm(name))
  /** fields: what is filled in, without secrets. */
  const goTo = async (fields: WaitingForm['fields'], maxAgeSeconds: number): Promise<void> => {
    const { value } = session
    if (value.state === 'signed-in') await value.stepUp(maxAgeSeconds, { name, fields })
  }
  /** Does the change. Its second refusal is thrown: the provider is not asked again before the person wants it. */
  async function attempt<T>(fields: WaitingForm['fields'], change: () => Promise<T>): Promise<T | undefined> {
    try {
      return await change()
    } catch (error) {
      if (!needsStepUp(error) || waited) throw error
      await goTo(fields, error.maxAge)
      return undefined
    }
  }
  return { waited, goTo, attempt }
}

/** The way on after a second refusal. */
export function SignInAgain({ error, goTo }: { error: Error | null; goTo: (maxAgeSeconds: number) => Promise<void> }) {
  return needsStepUp(error) ? <Button onClick={() => void goTo(error.maxAge)}>Sign in again</Button> : null
}
