import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { StartProblem } from './start-problem.ts'

/** Below what Linux gives to outgoing connections: one of those could take a port before its service listens. */
const [ANY_FIRST, ANY_END] = [10_000, 32_768]
const TRIES = 100
/** Nobody listens on these yet, so they look free. */
const chosen = new Set<number>()

/**
 * Makes sure that a port is free on localhost, or chooses one for 0.
 *
 * name: the variable that moves the port. Throws StartProblem when the port is taken or not ours to use.
 */
export async function claimPort(name: string, wanted: number): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = wanted === 0 ? randomInt(ANY_FIRST, ANY_END) : wanted
    if (wanted === 0 && chosen.has(port)) continue
    try {
      await probe(name, port, '127.0.0.1')
      // Browsers try IPv6 first, so a program that has only that address would answer in our place.
      await probe(name, port, '::1')
      chosen.add(port)
      return port
    } catch (error) {
      if (wanted !== 0 || tries === TRIES) throw error
    }
  }
}

async function probe(name: string, wanted: number, host: string): Promise<void> {
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
    if (host === '::1') return // no IPv6 here
    throw error
  }
  server.close()
  await once(server, 'close')
}
