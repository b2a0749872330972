/** Thrown for a member of a request that cannot be said in the protocol of the upstream. */
export class UnsupportedMember extends Error {
  /** The member, such as `messages[1].content[0]`. */
  param: string

  constructor(param: string, reason = 'is not supported by the provider of this model') {
    super(`${param} ${reason}`)
    this.name = 'UnsupportedMember'
    this.param = param
  }
}
