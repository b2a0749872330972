/** The platform cannot start or go on, for a reason that a person can act on: the message says all they need. */
export class StartProblem extends Error {
  override name = 'StartProblem'
}
