import { ConfigError } from '@platform/runtime/config'
import { isUnavailable } from '@platform/runtime/database'

/** The error inside the wrappers of drizzle and others. */
function innermost(error: unknown): unknown {
  let current = error
  while (current instanceof Error && current.cause instanceof Error) current = current.cause
  return current
}

const quoted = (name: string): string => `"${decodeURIComponent(name).replaceAll('"', '""')}"`

/**
 * Explains a failed start to the operator in one sentence: the cause and what to change, without a stack.
 *
 * env: the environment that the start was given. Of DATABASE_URL the sentence names host, port, database and role.
 */
export function startupFailure(thrown: unknown, env: Record<string, string | undefined> = {}): string {
  const error = innermost(thrown)
  if (error instanceof ConfigError) return error.message
  const { code, port, message, hostname } = (error ?? {}) as Partial<
    NodeJS.ErrnoException & { port: number; hostname: string }
  >
  if (code === 'EADDRINUSE') return `Port ${port} is taken; set PORT, or the variable that names it, to a free one.`
  if (code === 'EACCES') return `Port ${port} may not be opened by this user; set one above 1023.`
  if (code === '28P01' || code === '28000') return 'The database of DATABASE_URL refuses the user or password in it.'
  if (code === '3D000') return 'The database that DATABASE_URL names does not exist; create it first.'
  const database = URL.parse(env.DATABASE_URL ?? '')
  if (code === '42501') {
    const [name, role] = [database?.pathname.slice(1) || 'NAME', database?.username || 'ROLE'].map(quoted)
    return `The role of DATABASE_URL may not do what the service needs (${message}). Make it the owner of its database: ALTER DATABASE ${name} OWNER TO ${role};`
  }
  // HOST may be the name that nobody knows.
  if (isUnavailable(error) && (hostname === undefined || hostname === database?.hostname)) {
    const place = database ? ` at ${database.hostname}:${database.port || 5432}` : ''
    return `The database of DATABASE_URL cannot be reached${place} (${code ?? message}).`
  }
  return `Cannot start: ${message ?? String(error)}`
}
