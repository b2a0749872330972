import { Server } from 'node:net'
import { http } from './node-http.ts'
import { scopeRequests } from './request-scope.ts'

const listen = Server.prototype.listen as (this: Server, ...args: unknown[]) => Server

/** After this time a server that listens on another port is taken for one that listens on no other. */
export const otherPortMs = 3_000

export const otherPortSentence = (others: readonly number[], port: number): string =>
  `it listens on ${others.join(', ')} and not on PORT (${port}): let it listen on process.env.PORT`

/** Listens at a path, regardless of redirection. */
export function listenAt(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    listen.call(server, path, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
}

/**
 * From now on the first server that listens on the port listens at the path instead. Without a port: the first HTTP server,
 * whatever its port. Resolves with it once it listens. others: other ports that a server tried to listen on.
 */
export function redirectListening(
  path: string,
  port: number | undefined,
): { listening: Promise<Server>; taken: () => boolean; others: () => number[] } {
  const { promise: listening, resolve } = Promise.withResolvers<Server>()
  const others: number[] = []
  let isTaken = false
  Server.prototype.listen = function redirected(this: Server, ...args: unknown[]) {
    const wanted = portOf(args[0])
    const isMeant = port === undefined ? this instanceof http.Server : wanted === port
    if (isTaken || wanted === undefined || !isMeant) {
      if (wanted !== undefined) others.push(wanted)
      return listen.apply(this, args)
    }
    isTaken = true
    if (this instanceof http.Server) scopeRequests(this)
    this.address = () => ({ address: '127.0.0.1', family: 'IPv4', port: wanted })
    const callback = args.findLast((arg) => typeof arg === 'function')
    this.once('listening', () => resolve(this))
    return listen.apply(this, callback === undefined ? [path] : [path, callback])
  } as typeof Server.prototype.listen
  return { listening, taken: () => isTaken, others: () => others }
}

/** The port in the arguments of listen; undefined for a path or a handle. */
function portOf(first: unknown): number | undefined {
  if (first === undefined || first === null || typeof first === 'function') return 0
  if (typeof first === 'object') {
    if ('path' in first && first.path !== undefined) return
    return 'port' in first ? portOf(first.port) : undefined
  }
  if (typeof first === 'number') return first
  return typeof first === 'string' && /^\d+$/.test(first) ? Number(first) : undefined
}
