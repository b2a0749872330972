import { fail } from '../fail.ts'
import { apiKey } from './api-key.ts'
import type { Credential } from './credential.ts'

/** Environment variables by name. */
type Environment = Record<string, string | undefined>

/**
 * Where the platform is, and its credential, as a Function finds them in its environment (D9): PLATFORM_API_URL, PLATFORM_CLIENT_ID
 * and PLATFORM_CLIENT_SECRET. Programs elsewhere can set the same three, with an API key.
 *
 * env: what a worker is given, else the process's own. Throws TypeError naming the variable that is missing.
 */
export function fromEnv(env: Environment = (globalThis as { process?: { env: Environment } }).process?.env ?? {}): {
  baseUrl: string
  credential: Credential
} {
  const read = (name: string): string => env[name] || fail(`Platform needs ${name}`)
  return {
    baseUrl: read('PLATFORM_API_URL'),
    credential: apiKey({ id: read('PLATFORM_CLIENT_ID'), secret: read('PLATFORM_CLIENT_SECRET') }),
  }
}

/** The credential alone. */
export const functionCredential = (env?: Environment): Credential => fromEnv(env).credential
