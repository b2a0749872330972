import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { StartProblem } from './start-problem.ts'

/** Below Linux's ephemeral ports: an outgoing connection could take one of those before its service listens. */
const [ANY_FIRST, ANY_END] = [10_000, 32_768]
const TRIES = 100
/** Ports that were chosen but still look free, since nothing listens on them yet. */
const chosen = new Set<number>()

/**
 * Checks that a port is free on localhost, or chooses one for 0.
 *
 * name: the variable that sets the port. Throws StartProblem if the port is taken or not permitted.
 */
export async function claimPort(name: string, wanted: number): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = wanted === 0 ? randomInt(ANY_FIRST, ANY_END) : wanted
    if (wanted === 0 && chosen.has(port)) continue
    try {
      await probe(name, port, '127.0.0.1')
      // Browsers try IPv6 first, so a program that listens only there would answer instead of us.
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
