import { ConfigError } from '@platform/runtime/config'
import { isUnavailable } from '@platform/runtime/database'

/** The error inside the wrappers of drizzle and others. */
function innermost(error: unknown): unknown {
  let current = error
  while (current instanceof Error && current.cause instanceof Error) current = current.cause
  return current
}

/** Explains a failed start to the operator in one sentence: the cause and what to change, without a stack. */
export function startupFailure(thrown: unknown): string {
  const error = innermost(thrown)
  if (error instanceof ConfigError) return error.message
  const { code, port, message } = (error ?? {}) as { code?: string; port?: number; message?: string }
  if (code === 'EADDRINUSE') return `Port ${port} is taken; set PORT, or the variable that names it, to a free one.`
  if (code === 'EACCES') return `Port ${port} may not be opened by this user; set one above 1023.`
  if (code === '28P01' || code === '28000') return 'The database of DATABASE_URL refuses the user or password in it.'
  if (code === '3D000') return 'The database that DATABASE_URL names does not exist; create it first.'
  if (isUnavailable(error)) return `The database of DATABASE_URL cannot be reached (${code ?? message}).`
  return `Cannot start: ${message ?? String(error)}`
}
