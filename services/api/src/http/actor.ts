import type { ApiScope } from '@platform/auth/scopes'

/** Common to all actors. */
interface Reached {
  /** The organization whose resource the request reached, once known; for the log. */
  organizationId?: string
}

/** A person, through a token of the identity provider. */
export interface UserActor extends Reached {
  kind: 'user'
  userId: string
  /** The OAuth client that the token was issued to. */
  clientId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token. */
  tokenExpiresAt?: Date
  /** When the person last authenticated; undefined if the token does not say. */
  authenticatedAt: Date | undefined
}

/** An application, through a token obtained with one of its API keys (A §2 API key). */
interface KeyActor extends Reached {
  kind: 'key'
  keyId: string
  applicationId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined if the key itself signed the request. */
  tokenExpiresAt?: Date
}

/** The Functions of a deployment, through a token of the credential that the platform issued to it (D9). */
export interface FunctionActor extends Reached {
  kind: 'function'
  /** The credential's client id. */
  keyId: string
  applicationId: string
  deploymentId: string
  /** Storage and variables of this environment are the only ones it reaches. */
  environmentId: string
  scopes: ReadonlySet<string>
  /** `exp` of the token; undefined if the credential itself signed the request. */
  tokenExpiresAt?: Date
}

/** Actors that act as one application: its API keys and its Functions. */
export type ApplicationActor = KeyActor | FunctionActor
export type Actor = UserActor | ApplicationActor

/** True if `held` contains the scope, or the `:write` of the same resource for a `:read` (D70). */
export function grants(held: ReadonlySet<string>, needed: ApiScope): boolean {
  return held.has(needed) || (needed.endsWith(':read') && held.has(needed.replace(/:read$/, ':write')))
}
