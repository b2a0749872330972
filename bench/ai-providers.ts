import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
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
  const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'AI bench' })
  await platform.command(['product', 'grant', organization.id, 'ai-gateway'])
  const json = { 'content-type': 'application/json' }
  const path = '/v1/chat/completions'
  return {
    ours: {
      name: 'ours',
      ...gateway,
      path: '/ai/v1/chat/completions',
      headers: async () => ({
        ...json,
        authorization: `Bearer ${await platform.userToken()}`,
        'x-organization-id': organization.id,
      }),
    },
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
