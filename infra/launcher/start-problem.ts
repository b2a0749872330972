/** The platform cannot start or continue, for a reason that a person can fix: the message says all they need. */
export class StartProblem extends Error {
  override name = 'StartProblem'
}
