import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { StartProblem } from './start-problem.ts'

/**
 * Makes sure that a port is free on localhost, or chooses one for 0.
 *
 * name: the variable that moves the port. Throws StartProblem when the port is taken or not ours to use.
 */
export async function claimPort(name: string, wanted: number): Promise<number> {
  const port = await probe(name, wanted, '127.0.0.1')
  // Browsers try IPv6 first, so a program that has only that address would answer in our place.
  await probe(name, port, '::1')
  return port
}

async function probe(name: string, wanted: number, host: string): Promise<number> {
  const server = createServer()
  server.listen(wanted, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      throw new StartProblem(`Port ${wanted} is taken by another program: stop it, or set ${name} to a free port.`, {
        cause: error,
      })
    }
    if (code === 'EACCES') {
      throw new StartProblem(`Port ${wanted} may not be used by this account: set ${name} to a port above 1023.`, {
        cause: error,
      })
    }
    if (host === '::1') return wanted // no IPv6 here
    throw error
  }
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
