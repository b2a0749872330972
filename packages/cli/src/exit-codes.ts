/** What an exit code says. The codes never change. */
export const exitCodes = {
  0: 'Done',
  1: 'Refused, or failed otherwise',
  2: 'Wrong use: an unknown command, flag or value',
  3: 'A sign-in, a recent sign-in or a scope is needed; the message names it',
  4: 'Not found, or not in reach',
  5: 'A conflict: a name is taken, or something is in the way',
  6: 'The deployment failed, or was cancelled',
  7: 'The platform was not reached, or answered 5xx after retries',
  8: 'Input is needed, and there is no terminal to ask in',
  9: 'A quota, a budget, a billing cap or a rate limit',
  130: 'Interrupted (Ctrl-C)',
  143: 'Terminated',
} as const

export type ExitCode = keyof typeof exitCodes

/** Why a command failed, for programs, with its exit code. */
export const reasons = {
  failed: 1,
  forbidden: 1,
  usage: 2,
  invalid: 2,
  sign_in_needed: 3,
  step_up_needed: 3,
  scope_missing: 3,
  not_found: 4,
  conflict: 5,
  deployment_failed: 6,
  unreachable: 7,
  input_needed: 8,
  limit_reached: 9,
  interrupted: 130,
  terminated: 143,
} as const satisfies Record<string, ExitCode>

export type Reason = keyof typeof reasons
