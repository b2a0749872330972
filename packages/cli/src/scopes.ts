/** Of a person who stays signed in. */
const identity = ['openid', 'profile', 'email', 'offline_access']

const reading = [
  'platform:organizations:read',
  'network:applications:read',
  'network:env_vars:read',
  'network:deployments:read',
  'network:storage:read',
]

const writing = [
  'platform:organizations:write',
  'network:applications:write',
  'network:env_vars:write',
  'network:env_vars:delete',
  'network:deployments:trigger',
  'network:deployments:write',
  'network:storage:write',
  'network:storage:delete',
  'network:ai_gateway:chat',
  'network:ai_gateway:models',
]

/** What a sign-in asks for. Managing API keys is not among it: who finds the file makes no keys of their own. */
export const scopesToAskFor = ({ readOnly, more }: { readOnly: boolean; more: readonly string[] }): string[] => [
  ...new Set([...identity, ...reading, ...(readOnly ? [] : writing), ...more]),
]
