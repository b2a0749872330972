/** The scopes of OpenID Connect (B §2). They describe the user; no API key can hold one (D7). */
const identityScopes = ['openid', 'profile', 'email', 'offline_access'] as const

/** The scopes of the API's operations; the names are literal (A §5, D68). */
export const apiScopes = [
  'platform:organizations:read',
  'platform:organizations:write',
  'platform:members:read',
  'platform:members:write',
  'platform:api_keys:read',
  'platform:api_keys:write',
  'platform:api_keys:delete',
  'network:applications:read',
  'network:applications:write',
  'network:env_vars:read',
  'network:env_vars:write',
  'network:env_vars:delete',
  'network:deployments:read',
  'network:deployments:trigger',
  'network:deployments:write',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:sticky_sessions:write',
  'network:ai_gateway:chat',
  'network:ai_gateway:models',
  'network:ai_gateway:usage',
  'network:ai_gateway:budgets',
  'network:ai_gateway:policies',
] as const

/** A scope that an API operation may require. */
export type ApiScope = (typeof apiScopes)[number]

/** The scopes that an API key can hold: no key manages keys (D68), or invites people. */
export const apiKeyScopes: readonly ApiScope[] = apiScopes.filter(
  (scope) => !/^platform:(?:api_keys|members):/.test(scope),
)

/** All scopes that a token of the identity provider may have (B §2 Scopes). */
export const scopeCatalogue = [...identityScopes, ...apiScopes] as const

/** A scope of the whole catalogue. */
export type Scope = (typeof scopeCatalogue)[number]

const known: ReadonlySet<string> = new Set(scopeCatalogue)

/** True for a scope of the catalogue; case-sensitive. */
export const isScope = (name: string): name is Scope => known.has(name)
