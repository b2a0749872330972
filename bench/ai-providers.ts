import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import type { Lab } from './lab.ts'

const KEY = 'sk-bench'
const provider = fileURLToPath(import.meta.resolve('./peers/ai-upstream.ts'))
const bareProxy = fileURLToPath(import.meta.resolve('./peers/bare-ai-proxy.ts'))
const portkey = fileURLToPath(import.meta.resolve('./peers/portkey.ts'))

/** A server that chats can be asked of, and the headers that it wants. */
export interface ChatServer {
  name: string
  origin: string
  pid: number
  path: string
  headers(): Promise<Record<string, string>>
}

interface ChatServers {
  /** Our gateway: a process of the role api, for an organization that may use the operator's key. */
  ours: ChatServer
  /** The same process, for an organization that has a budget. */
  budgeted: ChatServer
  /** The proxy that only forwards. */
  bare: ChatServer
  portkey: ChatServer
  /** The provider itself. */
  direct: ChatServer
}

const started = new WeakMap<Lab, Promise<ChatServers>>()

/** Starts a provider on the load maker's core, and on the measured one what stands before it. Once a run. */
export function startChatServers(lab: Lab): Promise<ChatServers> {
  const servers = started.get(lab) ?? start(lab)
  started.set(lab, servers)
  return servers
}

/** Gives an organization a budget of cost that never runs out. */
export async function setBudget(databaseUrl: string, organizationId: string): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 })
  await sql`
    insert into ai_budgets (id, organization_id, period, max_cost_micros, enabled, created_at, updated_at)
    values (gen_random_uuid(), ${organizationId}, 'month', 1000000000000, true, now(), now())`
  await sql.end()
}

async function start(lab: Lab): Promise<ChatServers> {
  const platform = await lab.platform()
  const upstream = await lab.startPeer('The AI provider', provider, {}, 'load')
  const providers = join(await lab.makeFolder(), 'ai-providers.json')
  const price = { input_mtok: 0.15, output_mtok: 0.6 }
  const modelOf = (id: string) => ({ id, routes: [{ provider: 'bench', upstreamModel: id, price }] })
  await writeFile(
    providers,
    JSON.stringify({
      providers: [
        { id: 'bench', driver: 'openai-compatible', baseUrl: `${upstream.origin}/v1`, keyEnv: 'BENCH_AI_KEY' },
      ],
      models: [modelOf('bench'), modelOf('bench-slow')],
    }),
  )
  const gateway = await platform.startAnotherApi({ AI_PROVIDERS: providers, BENCH_AI_KEY: KEY })
  const newOrganization = async (name: string) => {
    const { id } = await platform.call<{ id: string }>('POST', '/organizations', { name })
    await platform.command(['product', 'grant', id, 'ai-gateway'])
    return id
  }
  const organizationId = await newOrganization('AI bench')
  const budgetedId = await newOrganization('AI bench under a budget')
  await setBudget(lab.databaseUrl, budgetedId)
  const json = { 'content-type': 'application/json' }
  const path = '/v1/chat/completions'
  const ourPath = '/ai/v1/chat/completions'
  const headersOf = (id: string) => async () => ({
    ...json,
    authorization: `Bearer ${await platform.userToken()}`,
    'x-organization-id': id,
  })
  return {
    ours: { name: 'ours', ...gateway, path: ourPath, headers: headersOf(organizationId) },
    budgeted: { name: 'ours, under a budget', ...gateway, path: ourPath, headers: headersOf(budgetedId) },
    bare: {
      name: 'bare',
      ...(await lab.startPeer('The bare proxy', bareProxy, { upstream: upstream.origin, key: KEY })),
      path,
      headers: async () => json,
    },
    portkey: {
      name: 'portkey',
      ...(await lab.startPeer("Portkey's gateway", portkey, {})),
      path,
      headers: async () => ({
        ...json,
        authorization: `Bearer ${KEY}`,
        'x-portkey-provider': 'openai',
        'x-portkey-custom-host': `${upstream.origin}/v1`,
      }),
    },
    direct: { name: 'direct', ...upstream, path, headers: async () => json },
  }
}
