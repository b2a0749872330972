/** A member of the request cannot be expressed in the upstream's protocol. */
export class UnsupportedMember extends Error {
  /** The path of the member, for example `messages[1].content[0]`. */
  param: string

  constructor(param: string, reason = 'is not supported by the provider of this model') {
    super(`${param} ${reason}`)
    this.name = 'UnsupportedMember'
    this.param = param
  }
}
