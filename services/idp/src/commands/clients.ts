import { isUuid } from '@platform/runtime/is-uuid'
import { type Arguments, type Command, requireOption, requireWord, UsageError } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { deleteClient } from '../features/access/delete-client.ts'
import { disableClient } from '../features/access/disable-client.ts'
import { enableClient } from '../features/access/enable-client.ts'
import {
  createClient,
  getClient,
  listClients,
  rotateClientSecret,
  setClientPolicy,
  updateClient,
} from '../features/clients/clients.ts'
import { readSwitch } from './read-switch.ts'

const HOUR_MS = 3_600_000

function requireClientId(args: Arguments): string {
  const id = requireWord(args, 0, 'the id of a client')
  if (!isUuid(id)) throw new UsageError('A client id is a UUID')
  return id.toLowerCase()
}

function readKind(args: Arguments): 'public' | 'confidential' {
  const kind = requireOption(args, 'kind')
  if (kind !== 'public' && kind !== 'confidential') throw new UsageError('--kind is public or confidential')
  return kind
}

/** The values of an option that may repeat; none for a single empty one, undefined if it is not given. */
function readList(args: Arguments, name: string): readonly string[] | undefined {
  const values = args.options(name)
  if (values.length === 0) return undefined
  return values.length === 1 && values[0] === '' ? [] : values
}

function readScopes(args: Arguments): '*' | readonly string[] | undefined {
  const scopes = readList(args, 'scope')
  if (!args.isSet('all-scopes')) return scopes
  if (scopes) throw new UsageError('--all-scopes stands without --scope')
  return '*'
}

const listed = (values: readonly string[]): string => values.join(' ') || '-'

/** A command that does one thing to a client. */
const change = (
  verb: string,
  summary: string,
  done: string,
  run: (deps: Deps, clientId: string) => Promise<void>,
): Command<Deps> => ({
  name: `client ${verb}`,
  usage: `client ${verb} ID`,
  summary,
  async run(deps, args) {
    const clientId = requireClientId(args)
    await run(deps, clientId)
    return { json: { id: clientId }, text: `${clientId}: ${done}` }
  },
})

export const clientCommands: readonly Command<Deps>[] = [
  {
    name: 'client create',
    usage:
      'client create --name NAME --kind public|confidential --grant GRANT… --scope SCOPE…|--all-scopes [--redirect-uri URI…] [--post-logout-redirect-uri URI…] [--requester WHO] [--first-party] [--id UUID]',
    summary: 'make a client; the secret of a confidential one is printed once',
    options: {
      id: 'value',
      name: 'value',
      kind: 'value',
      requester: 'value',
      grant: 'repeat',
      scope: 'repeat',
      'all-scopes': 'switch',
      'redirect-uri': 'repeat',
      'post-logout-redirect-uri': 'repeat',
      'first-party': 'switch',
    },
    async run(deps, args) {
      const { client, secret } = await createClient(deps, {
        id: args.option('id'),
        name: requireOption(args, 'name'),
        kind: readKind(args),
        requester: args.option('requester'),
        redirectUris: args.options('redirect-uri'),
        postLogoutRedirectUris: args.options('post-logout-redirect-uri'),
        grants: args.options('grant'),
        scopes: args.isSet('all-scopes') ? '*' : args.options('scope'),
        isFirstParty: args.isSet('first-party'),
      })
      return {
        json: { id: client.id, secret: secret ?? null },
        text: `id      ${client.id}${secret === undefined ? '' : `\nsecret  ${secret}`}`,
      }
    },
  },
  {
    name: 'client list',
    usage: 'client list',
    summary: 'show all clients',
    async run(deps) {
      const clients = await listClients(deps)
      const lines = clients.map(
        ({ id, kind, disabledAt, name }) =>
          `${id}  ${kind.padEnd(12)}  ${disabledAt ? 'disabled' : 'active  '}  ${name}`,
      )
      return { json: clients, text: lines.join('\n') }
    },
  },
  {
    name: 'client show',
    usage: 'client show ID',
    summary: 'show what is registered of a client; of its secrets how old they are',
    async run(deps, args) {
      const { secrets, ...client } = await getClient(deps, requireClientId(args))
      const { policyDomains, policyUserIds } = client
      const lines = [
        ['id', client.id],
        ['name', client.name],
        ['requester', client.requester ?? '-'],
        ['kind', client.kind],
        ['state', client.disabledAt ? `disabled since ${client.disabledAt.toISOString()}` : 'active'],
        ['first party', client.isFirstParty ? 'yes' : 'no'],
        ['grants', listed(client.grants)],
        ['scopes', client.scopes ? listed(client.scopes) : 'all'],
        ['redirect URIs', listed(client.redirectUris)],
        ['after sign-out', listed(client.postLogoutRedirectUris)],
        ['who', [...policyDomains, ...policyUserIds].join(' ') || 'everyone'],
        ['second factor', client.requiresSecondFactor ? 'required' : '-'],
        ['product', client.requiredProduct ?? '-'],
        ['made', client.createdAt.toISOString()],
        ['changed', client.updatedAt.toISOString()],
        ...secrets.map(({ createdAt, expiresAt }) => [
          'secret',
          `made ${createdAt.toISOString()}${expiresAt ? `, works until ${expiresAt.toISOString()}` : ''}`,
        ]),
      ]
      return {
        json: { ...client, secrets },
        text: lines.map(([name = '', value]) => `${name.padEnd(14)}  ${value}`).join('\n'),
      }
    },
  },
  {
    name: 'client update',
    usage:
      'client update ID [--name NAME] [--requester WHO] [--redirect-uri URI…] [--post-logout-redirect-uri URI…] [--grant GRANT…] [--scope SCOPE…|--all-scopes] [--first-party true|false]',
    summary: 'change what is named of a client, and leave the rest; an empty value clears a list, or the requester',
    options: {
      name: 'value',
      requester: 'value',
      'redirect-uri': 'repeat',
      'post-logout-redirect-uri': 'repeat',
      grant: 'repeat',
      scope: 'repeat',
      'all-scopes': 'switch',
      'first-party': 'value',
    },
    async run(deps, args) {
      const clientId = requireClientId(args)
      const changes = {
        name: args.option('name'),
        requester: args.option('requester'),
        redirectUris: readList(args, 'redirect-uri'),
        postLogoutRedirectUris: readList(args, 'post-logout-redirect-uri'),
        grants: readList(args, 'grant'),
        scopes: readScopes(args),
        isFirstParty: readSwitch(args, 'first-party'),
      }
      if (Object.values(changes).every((value) => value === undefined))
        throw new UsageError('Missing: what to change, such as --name')
      const client = await updateClient(deps, { clientId, changes })
      return { json: client, text: `${clientId}: updated` }
    },
  },
  change('disable', 'shut a client out and end every grant it holds', 'disabled', disableClient),
  change('enable', 'let a disabled client in again; what it was granted stays ended', 'enabled', enableClient),
  change('delete', 'delete a disabled client and everything of it', 'deleted', deleteClient),
  {
    name: 'client rotate-secret',
    usage: 'client rotate-secret ID [--overlap-hours HOURS]',
    summary: 'print a new secret; the old one works for 24 hours more',
    options: { 'overlap-hours': 'value' },
    async run(deps, args) {
      const hours = args.option('overlap-hours') ?? '24'
      if (!/^\d{1,4}$/.test(hours)) throw new UsageError('--overlap-hours is a whole number')
      const clientId = requireClientId(args)
      const secret = await rotateClientSecret(deps, { clientId, overlapMs: Number(hours) * HOUR_MS })
      return { json: { id: clientId, secret }, text: `secret  ${secret}` }
    },
  },
  {
    name: 'policy set',
    usage:
      'policy set CLIENT_ID [--domain DOMAIN…] [--user ID…] [--everyone] [--second-factor true|false] [--product NAME|--no-product]',
    summary: 'say who may sign in to a client, and which product they need',
    options: {
      domain: 'repeat',
      user: 'repeat',
      everyone: 'switch',
      'second-factor': 'value',
      product: 'value',
      'no-product': 'switch',
    },
    async run(deps, args) {
      const clientId = requireClientId(args)
      const domains = args.options('domain')
      const userIds = args.options('user')
      const isEveryone = args.isSet('everyone')
      const isListed = domains.length > 0 || userIds.length > 0
      if (isEveryone && isListed) throw new UsageError('--everyone stands without --domain and --user')
      const policy = {
        ...((isEveryone || isListed) && { domains, userIds }),
        requiresSecondFactor: readSwitch(args, 'second-factor'),
        requiredProduct: args.isSet('no-product') ? null : args.option('product'),
      }
      await setClientPolicy(deps, { clientId, policy })
      return { json: { id: clientId, policy }, text: `${clientId}: policy set` }
    },
  },
]
