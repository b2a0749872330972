import { isUuid } from '@platform/runtime/is-uuid'
import { type Arguments, type Command, requireOption, requireWord, UsageError } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { disableClient } from '../features/access/disable-client.ts'
import { createClient, listClients, rotateClientSecret, setClientPolicy } from '../features/clients/clients.ts'

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

function readSwitch(args: Arguments, name: string): boolean | undefined {
  const value = args.option(name)
  if (value === undefined) return undefined
  if (value !== 'true' && value !== 'false') throw new UsageError(`--${name} is true or false`)
  return value === 'true'
}

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
    name: 'client disable',
    usage: 'client disable ID',
    summary: 'shut a client out and end every grant it holds',
    async run(deps, args) {
      const clientId = requireClientId(args)
      await disableClient(deps, clientId)
      return { json: { id: clientId }, text: `${clientId}: disabled` }
    },
  },
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
