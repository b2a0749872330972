/** Throws TypeError: the program that calls is wrong, and no request was sent. */
export function fail(message: string): never {
  throw new TypeError(message)
}
