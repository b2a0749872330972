import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'

/** Where a relay listens or leads: the path of a Unix socket, or an address and a port. */
export type RelayEnd = string | { host: string; port: number }

/** Passes connections on. Settles once it listens. */
export async function startRelay(listen: RelayEnd, to: RelayEnd): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ ...(typeof to === 'string' ? { path: to } : to), allowHalfOpen: true })
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
  })
  if (typeof listen === 'string') server.listen(listen)
  else server.listen(listen.port, listen.host)
  await once(server, 'listening')
  return server
}
