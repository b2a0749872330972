import { cancelDeployment, type Platform } from '@platform/sdk'
import { deployArchive } from '@platform/sdk/uploads'
import type { Plan } from './plan.ts'
import { type Sending, sending } from './sending.ts'

/** Sends a plan as a deployment, whose id it returns once all of it is there. One that does not get its files is cancelled. */
async function sendPlan(
  platform: Platform,
  plan: Plan,
  {
    applicationId,
    environment,
    onSent,
    signal,
  }: {
    applicationId: string
    environment: string
    onSent: (bytes: number) => void
    signal: AbortSignal
  },
): Promise<string> {
  let id: string | undefined
  // Its creation is never broken off: nobody would know what to cancel.
  const files = new AbortController()
  const stop = (): void => {
    if (id !== undefined) files.abort(signal.reason)
  }
  signal.addEventListener('abort', stop)
  try {
    const deployment = await deployArchive(platform, {
      deployment: { applicationId, environment },
      archive: plan.open(),
      wait: false,
      signal: files.signal,
      onProgress(progress) {
        if (progress.step === 'created') ({ id } = progress.deployment)
        if (signal.aborted) stop()
        if (progress.step === 'sent') onSent(progress.sentBytes)
      },
    })
    return deployment.id
  } catch (error) {
    // Where this fails, too, the platform ends by itself what waits for files for too long.
    if (id !== undefined) cancelDeployment(platform, { id }).catch(() => {})
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Sends a plan. Resolves to the id of its deployment once all of it is there; undefined if it was stopped, or failed, which `sending` tells. */
export async function startSending(
  platform: Platform,
  { environment, ...what }: Pick<Sending, 'plan' | 'applicationId' | 'path'> & { environment: string },
): Promise<string | undefined> {
  const work = new AbortController()
  const stop = (): void => {
    work.abort()
    sending.value = undefined
  }
  const { plan, applicationId } = what
  const begun = { ...what, sentBytes: 0, stop }
  const ask = (event: BeforeUnloadEvent): void => event.preventDefault()
  sending.value = begun
  addEventListener('beforeunload', ask)
  try {
    const id = await sendPlan(platform, plan, {
      applicationId,
      environment,
      onSent(sentBytes) {
        // A part may arrive after the person has stopped it.
        if (!work.signal.aborted) sending.value = { ...begun, sentBytes }
      },
      signal: work.signal,
    })
    sending.value = undefined
    return id
  } catch (error) {
    if (!work.signal.aborted) sending.value = { ...begun, failure: error as Error }
    return undefined
  } finally {
    removeEventListener('beforeunload', ask)
  }
}
