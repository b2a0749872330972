import type { Scope } from '@platform/auth/scopes'

/**
 * What a client does with a scope. `identity`: it learns who the user is; `stays`: it keeps access without asking again. All
 * but `identity` and `reads` change something, so they are shown first and marked.
 */
export type ScopeEffect = 'deletes' | 'changes' | 'spends' | 'stays' | 'reads' | 'identity'

/** What a scope lets a client do, in words for the user. Those of `identity` continue the word "See". */
export const scopeWords: Record<Scope, readonly [effect: ScopeEffect, words: string]> = {
  openid: ['identity', 'which account is yours'],
  profile: ['identity', 'your name and picture'],
  email: ['identity', 'your email address'],
  offline_access: ['stays', 'Stay connected while you are away, until you disconnect it'],
  'platform:organizations:read': ['reads', 'See your organizations and their members'],
  'platform:organizations:write': ['changes', 'Create organizations'],
  'platform:members:read': ['reads', 'See who is invited to your organizations'],
  'platform:members:write': ['changes', 'Invite people to your organizations, and remove members'],
  'platform:api_keys:read': ['reads', 'See API keys'],
  'platform:api_keys:write': ['changes', 'Create and revoke API keys'],
  'platform:api_keys:delete': ['deletes', 'Revoke API keys'],
  'network:applications:read': ['reads', 'See applications, hostnames, requests and activity'],
  'network:applications:write': ['changes', 'Create applications and change their hostnames'],
  'network:env_vars:read': ['reads', 'Read environment variables'],
  'network:env_vars:write': ['changes', 'Create and change environment variables'],
  'network:env_vars:delete': ['deletes', 'Delete environment variables'],
  'network:deployments:read': ['reads', 'See deployments and their logs'],
  'network:deployments:trigger': ['changes', 'Deploy applications'],
  'network:deployments:write': ['changes', 'Change deployments'],
  'network:storage:read': ['reads', 'Read stored files'],
  'network:storage:write': ['changes', 'Store and change files'],
  'network:storage:delete': ['deletes', 'Delete stored files'],
  'network:sticky_sessions:write': ['changes', 'Pin visitors to a Function'],
  'network:ai_gateway:chat': ['spends', 'Use AI models at the cost of your organization'],
  'network:ai_gateway:models': ['reads', 'See which AI models there are'],
  'network:ai_gateway:usage': ['reads', 'See the AI usage of your organizations'],
  'network:ai_gateway:budgets': ['changes', 'Change the AI budgets of your organizations'],
  'network:ai_gateway:policies': ['changes', 'Change the AI policies of your organizations'],
}
