import { paramOf } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'

/** 400: what a member costs cannot be bounded before the call. */
export class UnsupportedUnderBudget extends AiError {
  readonly why: string

  /** path: of the offending member. */
  constructor(path: readonly (string | number)[], why: string) {
    const param = paramOf(path)
    super(
      400,
      'invalid_request_error',
      'unsupported_under_budget',
      `${param} cannot be used under a budget of cost or tokens: ${why}`,
      { param },
    )
    this.why = why
  }
}
