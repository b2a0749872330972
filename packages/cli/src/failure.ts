import { DeploymentFailed } from '@platform/sdk/uploads'
import { isConflict, isNotFound, isQuota, needsSignIn, needsStepUp, PlatformError } from '@platform/sdk'
import type { Context } from './context.ts'
import { interrupted } from './interrupted.ts'
import { CommandFailure, goOn } from './outcome.ts'
import type { Reason } from './exit-codes.ts'
import { inOneLine } from './visible-text.ts'

/** The last lines of a log, as a failure shows them. */
const linesOf = (error: DeploymentFailed): string[] => error.lines.map(({ message }) => message)

const SCOPES = /lacks the scope ([\w:.-]+)/

function reasonOf(error: PlatformError): Reason {
  const { status, code, message, retryable } = error
  if (code === 'access_denied' || code === 'expired_token') return 'sign_in_needed'
  if (needsStepUp(error)) return 'step_up_needed'
  if (needsSignIn(error)) return 'sign_in_needed'
  if (status === 403) {
    if (SCOPES.test(message)) return 'scope_missing'
    return message === 'Access denied' ? 'not_found' : 'forbidden'
  }
  if (isNotFound(error)) return 'not_found'
  if (isConflict(error)) return 'conflict'
  if (isQuota(error) || status === 429 || status === 413) return 'limit_reached'
  if (status === 422 || status === 400) return 'invalid'
  // Only what nobody answered, or the platform could not: another 0 is an answer that was wrong, and will be so again.
  return (status === 0 && retryable) || status >= 500 ? 'unreachable' : 'failed'
}

const signIn = goOn('sign in', 'login')

/** Of a credential of the environment, which no `login` takes the place of. */
const adviceOfCredential = {
  token: 'A token is good for 300 s: put another one into PLATFORM_TOKEN, or unset it and sign in.',
  key: 'Check PLATFORM_CLIENT_ID and PLATFORM_CLIENT_SECRET, or unset them and sign in.',
}

/** How it goes on after an answer. */
function adviceOf(reason: Reason, { message, maxAge }: PlatformError, credential: Context['credential']) {
  if (reason === 'sign_in_needed')
    return credential === 'user' ? { hint: 'Sign in again.', next: [signIn] } : { hint: adviceOfCredential[credential] }
  if (reason === 'step_up_needed')
    return {
      hint: `The sign-in is older than ${maxAge} seconds: sign in again.`,
      ...(credential === 'user' && { next: [signIn] }),
    }
  const scope = reason === 'scope_missing' ? SCOPES.exec(message)?.[1] : undefined
  if (scope)
    return {
      hint: `The credential lacks the scope ${scope}.`,
      ...(credential === 'user' && {
        next: [goOn('sign in with that scope too', 'login', '--scope', scope)],
      }),
    }
  return {}
}

function explainAnswer(
  error: PlatformError,
  { credential, unanswering }: Pick<Context, 'credential' | 'unanswering'>,
): CommandFailure {
  const reason = reasonOf(error)
  const { message, errors, requestId, status, retryAfterSeconds } = error
  const fields = errors.map((field) => `${field.property}: ${field.message}`)
  const isAnswered = status !== 0
  const who = reason === 'unreachable' && !isAnswered && unanswering !== undefined ? `${unanswering}: ` : ''
  return new CommandFailure(reason, inOneLine(who + [message, fields.join('; ')].filter(Boolean).join(': ')), {
    requestId,
    ...(isAnswered && {
      data: {
        status,
        ...(errors.length > 0 && { errors }),
        ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
      },
    }),
    ...adviceOf(reason, error, credential),
    cause: error,
  })
}

/** Why a command failed, whatever it threw. */
export function explain(
  error: unknown,
  context: Pick<Context, 'signal' | 'credential' | 'unanswering'>,
): CommandFailure {
  if (error instanceof CommandFailure) return error
  if (context.signal.aborted) return interrupted(context.signal)
  if (error instanceof DeploymentFailed) {
    const { id } = error.deployment
    return new CommandFailure('deployment_failed', error.message, {
      data: { id, lines: linesOf(error) },
      next: [goOn('read the whole log', 'logs', id, '--build')],
      cause: error,
    })
  }
  if (error instanceof PlatformError) return explainAnswer(error, context)
  // The SDK refuses before a request: a malformed value, a credential of another platform.
  if (error instanceof TypeError) return new CommandFailure('usage', error.message, { cause: error })
  return new CommandFailure('failed', error instanceof Error ? error.message : String(error), { cause: error })
}
