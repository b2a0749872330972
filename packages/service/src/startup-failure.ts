import { ConfigError } from '@platform/runtime/config'
import { isUnavailable } from '@platform/runtime/database'

/** The error inside the wrappers of drizzle and others; the first one, where what was open could not be closed after it. */
function innermost(error: unknown): unknown {
  if (error instanceof SuppressedError) return innermost(error.suppressed)
  return error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A role as the driver reads it; of a database's name it decodes nothing. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

/** What gives a role the rights that it lacks, by what Postgres says of them. */
function remedy(message: string, name: string, role: string): string {
  if (message.includes('for database'))
    return `Make it the owner of its database: ALTER DATABASE ${name} OWNER TO ${role};`
  if (message.includes('drizzle'))
    return `Where it does not migrate, it has to read what was applied: GRANT USAGE ON SCHEMA drizzle TO ${role}; GRANT SELECT ON ALL TABLES IN SCHEMA drizzle TO ${role};`
  return 'Make it the owner of its database and of all that is in there.'
}

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
    const name = quoted(database?.pathname.slice(1) || 'NAME')
    const role = quoted(decoded(database?.username || 'ROLE'))
    return `The role of DATABASE_URL may not do what the service needs (${message}). ${remedy(message ?? '', name, role)}`
  }
  if (code === '25006' || code === '53300') return `The database of DATABASE_URL answers, and refuses: ${message}.`
  // HOST may be the name that nobody knows.
  if (isUnavailable(error) && (hostname === undefined || hostname === database?.hostname)) {
    const place = database?.hostname ? ` at ${database.hostname}:${database.port || 5432}` : ''
    return `The database of DATABASE_URL cannot be reached${place} (${code ?? message}).`
  }
  return `Cannot start: ${message ?? String(error)}`
}
