/** Raw parameters of an authorization request; each check decides which of them may repeat (D58). */
export interface AuthorizeParameters {
  /** The value; undefined when absent or empty (RFC 6749 §3.1). */
  get(name: string): string | undefined
  /** Sent more than once. */
  isDuplicate(name: string): boolean
  /** Names of everything sent more than once. */
  duplicates: readonly string[]
  /** False if the parameter holds NUL or broken UTF-16, which Postgres refuses. */
  isText(name: string): boolean
  names: readonly string[]
}

/** search: the query with or without its `?`. */
export function readAuthorizeParameters(search: string): AuthorizeParameters {
  const query = new URLSearchParams(search)
  const names = [...new Set(query.keys())]
  return {
    get: (name) => query.get(name) || undefined,
    isDuplicate: (name) => query.getAll(name).length > 1,
    duplicates: names.filter((name) => query.getAll(name).length > 1),
    isText: (name) => {
      const value = query.get(name) ?? ''
      return !value.includes('\0') && value.isWellFormed()
    },
    names,
  }
}
