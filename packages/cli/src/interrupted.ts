import { CommandFailure } from './outcome.ts'

/** The failure of a command that was told to end. */
export function interrupted(signal: AbortSignal, message = 'Interrupted'): CommandFailure {
  const { reason } = signal as { reason: unknown }
  if (reason instanceof CommandFailure) return reason
  return new CommandFailure(reason === 'SIGTERM' ? 'terminated' : 'interrupted', message)
}
