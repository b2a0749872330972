import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** The 400 of what costs something that a budget cannot bound before the call. path: of the member to blame. */
export const unsupportedUnderBudget = (path: readonly (string | number)[], why: string): AiError => {
  const param = paramOf(path)
  return new AiError(
    400,
    'invalid_request_error',
    'unsupported_under_budget',
    `${param} cannot be used under a budget of cost or tokens: ${why}`,
    { param },
  )
}
