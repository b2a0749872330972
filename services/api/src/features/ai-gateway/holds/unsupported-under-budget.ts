import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** Makes the 400 for a cost that cannot be bounded before the call. path: of the offending member. */
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
