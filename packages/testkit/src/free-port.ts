import { createServer } from 'node:net'
import { randomInt } from 'node:crypto'

/** Below what Linux gives to outgoing connections and to servers that ask for any port, so none of those comes between. */
const [FIRST, END] = [10_000, 32_768]

const canListen = (address: { path: string } | { port: number; host: string }, isKept: boolean): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer().unref()
    server.once('error', () => resolve(false))
    server.listen(address, () => (isKept ? resolve(true) : server.close(() => resolve(true))))
  })

/**
 * Keeps a port for this process until it ends: other processes of tests look for ports at the same time, and until a port is
 * listened on it looks free to all of them. The name is Linux's own, which forgets it with the process.
 */
const reserve = (port: number): Promise<boolean> =>
  process.platform === 'linux' ? canListen({ path: `\0platform-test-port-${port}` }, true) : Promise.resolve(true)

/**
 * A port that was free a moment ago, and on Linux was given to nobody else who asked here; an issuer has to know its own before it
 * listens. choose: proposes ports until one is free.
 */
export async function freePort(choose = () => randomInt(FIRST, END)): Promise<number> {
  for (;;) {
    const port = choose()
    if ((await reserve(port)) && (await canListen({ port, host: '127.0.0.1' }, false))) return port
  }
}
