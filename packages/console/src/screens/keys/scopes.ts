interface ScopeGroup {
  name: string
  sentence: string
  scopes: readonly { scope: string; allows: string }[]
}

/** What a key can be allowed to do, of what the person who makes it may do. */
export const scopeGroups: readonly ScopeGroup[] = [
  {
    name: 'Deployments',
    sentence: 'For CI and for programs that watch what is live.',
    scopes: [
      { scope: 'network:deployments:trigger', allows: 'Deploy, promote, roll back, cancel, and run cron jobs' },
      { scope: 'network:deployments:read', allows: 'See deployments, their logs and files' },
      { scope: 'network:deployments:write', allows: 'Purge the image cache' },
    ],
  },
  {
    name: 'Variables',
    sentence: 'What deployments are configured with. Sensitive values are shown to nobody.',
    scopes: [
      { scope: 'network:env_vars:read', allows: 'Read variables' },
      { scope: 'network:env_vars:write', allows: 'Create and change variables' },
      { scope: 'network:env_vars:delete', allows: 'Delete variables' },
    ],
  },
  {
    name: 'Storage',
    sentence: 'Buckets and their objects, by S3 and by the API.',
    scopes: [
      { scope: 'network:storage:read', allows: 'List and download objects' },
      { scope: 'network:storage:write', allows: 'Create buckets, upload and restore objects' },
      { scope: 'network:storage:delete', allows: 'Delete objects and buckets, and empty the trash' },
    ],
  },
  {
    name: 'AI',
    sentence: 'Models, on the account of the organization.',
    scopes: [
      { scope: 'network:ai_gateway:chat', allows: 'Call models' },
      { scope: 'network:ai_gateway:models', allows: 'List models' },
      { scope: 'network:ai_gateway:usage', allows: 'See what was used, and export it' },
      { scope: 'network:ai_gateway:budgets', allows: 'See budgets and what is spent of them' },
      { scope: 'network:ai_gateway:policies', allows: 'See which models are allowed' },
    ],
  },
  {
    name: 'Application',
    sentence: 'The application itself, and the organization around it.',
    scopes: [
      { scope: 'network:applications:read', allows: 'See the application, its requests and activity' },
      { scope: 'network:applications:write', allows: 'Choose its hostname' },
      { scope: 'platform:organizations:read', allows: 'See the organization, its members and quotas' },
    ],
  },
]

/** What keys are mostly made for. */
export const presets: readonly { name: string; scopes: readonly string[] }[] = [
  { name: 'Deploy from CI', scopes: ['network:deployments:trigger', 'network:deployments:read'] },
  {
    name: 'Store files (S3)',
    scopes: ['network:storage:read', 'network:storage:write', 'network:storage:delete'],
  },
  { name: 'Call models', scopes: ['network:ai_gateway:chat', 'network:ai_gateway:models'] },
]

const order = scopeGroups.flatMap(({ scopes }) => scopes.map(({ scope }) => scope))

/** As they stand in the form, which tells equal sets by equal lists. */
export const inOrder = (scopes: Iterable<string>): string[] =>
  [...new Set(scopes)].sort((one, other) => order.indexOf(one) - order.indexOf(other))

/** Scopes in the words of the form, a line for each group; those that the console does not know stand for themselves. */
export function tellScopes(scopes: readonly string[]): { group: string; allows: string[] }[] {
  const told = scopeGroups.flatMap(({ name, scopes: all }) => {
    const allows = all.filter(({ scope }) => scopes.includes(scope)).map((each) => each.allows)
    return allows.length === 0 ? [] : [{ group: name, allows }]
  })
  const others = scopes.filter((scope) => !order.includes(scope))
  return others.length === 0 ? told : [...told, { group: 'Other', allows: others }]
}

export const isForStorage = (scopes: readonly string[]): boolean =>
  scopes.some((scope) => scope.startsWith('network:storage:'))

export const isForDeploying = (scopes: readonly string[]): boolean => scopes.includes('network:deployments:trigger')
