import { chmod, mkdir, rm } from 'node:fs/promises'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Logger } from '@platform/runtime/logger'
import { createRefusingServer, type Refusal } from '@platform/service/http-server'
import { jsonBody, unreadableRequest } from '@platform/service/unreadable-request'

/** Answers a request that a deployment's Function sent to the platform. */
export type DeploymentListener = (deploymentId: string, incoming: IncomingMessage, outgoing: ServerResponse) => void

/** The sockets through which Functions reach the platform. */
export interface PlatformFolders {
  /** The folder of a deployment's `api.sock`, `assets.sock` and `cache.sock`, which serve this deployment only. */
  open(deploymentId: string): Promise<string>
  /** Closes the sockets of deployments without slots. */
  closeUnused(isInUse: (deploymentId: string) => boolean): Promise<void>
  close(): Promise<void>
}

interface Options {
  /** Absolute, at most 40 characters, since a socket's address has at most 107. Existing contents are removed. */
  folder: string
  logger: Logger
  onApi: DeploymentListener
  onAssets: DeploymentListener
  onCache: DeploymentListener
}

/** Connections per socket; a Function that opens more only makes its own requests wait. */
const CONNECTIONS_MAX = 256

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

async function serve(path: string, refusal: Refusal, listener: RequestListener): Promise<Server> {
  // An upload may last longer than Node's default of five minutes; the API enforces its own limits.
  const server = createRefusingServer({ keepAliveTimeout: 65_000, requestTimeout: 0 }, refusal, listener)
  server.maxConnections = CONNECTIONS_MAX
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(path, resolve)
  })
  // Slots may run as any user; the parent folder is accessible to us alone.
  await chmod(path, 0o666)
  return server
}

const closeServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

/** Encodes a UUID as a short file name. */
const nameOf = (deploymentId: string): string =>
  Buffer.from(deploymentId.replaceAll('-', ''), 'hex').toString('base64url')

export function openPlatformFolders({ folder, logger, onApi, onAssets, onCache }: Options): PlatformFolders {
  const opened = new Map<string, Promise<{ path: string; servers: Server[] }>>()
  /** A deployment whose sockets are closing is reopened only after that, since the paths are the same. */
  const shutting = new Map<string, Promise<void>>()
  let cleared: Promise<void> | undefined

  async function clear(): Promise<void> {
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true, mode: 0o711 })
  }
  async function open(deploymentId: string) {
    await (cleared ??= clear())
    await shutting.get(deploymentId)
    const path = join(folder, nameOf(deploymentId))
    await rm(path, { recursive: true, force: true })
    await mkdir(path, { mode: 0o755 })
    const { refusal } = unreadableRequest(logger, METHODS, ({ message }) => jsonBody({ error: message }), {
      deploymentId,
    })
    const servers = await Promise.all([
      serve(join(path, 'api.sock'), refusal, (incoming, outgoing) => onApi(deploymentId, incoming, outgoing)),
      serve(join(path, 'assets.sock'), refusal, (incoming, outgoing) => onAssets(deploymentId, incoming, outgoing)),
      serve(join(path, 'cache.sock'), refusal, (incoming, outgoing) => onCache(deploymentId, incoming, outgoing)),
    ])
    return { path, servers }
  }
  function shut(deploymentId: string, opening: Promise<{ path: string; servers: Server[] }>): Promise<void> {
    opened.delete(deploymentId)
    const closing = close(deploymentId, opening).finally(() => {
      if (shutting.get(deploymentId) === closing) shutting.delete(deploymentId)
    })
    shutting.set(deploymentId, closing)
    return closing
  }
  async function close(deploymentId: string, opening: Promise<{ path: string; servers: Server[] }>): Promise<void> {
    try {
      const { path, servers } = await opening
      await Promise.all(servers.map(closeServer))
      await rm(path, { recursive: true, force: true })
    } catch (error) {
      logger.warn({ err: error, deploymentId }, 'the sockets of a deployment were not removed')
    }
  }

  return {
    async open(deploymentId) {
      let opening = opened.get(deploymentId)
      if (!opening) {
        opening = open(deploymentId)
        opened.set(deploymentId, opening)
        opening.catch(() => opened.delete(deploymentId))
      }
      return (await opening).path
    },
    async closeUnused(isInUse) {
      const unused = [...opened].filter(([deploymentId]) => !isInUse(deploymentId))
      await Promise.all(unused.map(([deploymentId, opening]) => shut(deploymentId, opening)))
    },
    async close() {
      await Promise.all([...opened].map(([deploymentId, opening]) => shut(deploymentId, opening)))
    },
  }
}
