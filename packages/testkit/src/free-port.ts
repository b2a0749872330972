import { createServer } from 'node:net'
import { randomInt } from 'node:crypto'

/** Above the last port that `fetch` and browsers refuse (10080), and below the ephemeral ones of Linux, which others are given. */
const [FIRST, END] = [10_081, 32_768]

const canListen = (address: { path: string } | { port: number; host: string }, isKept: boolean): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer().unref()
    server.once('error', () => resolve(false))
    server.listen(address, () => (isKept ? resolve(true) : server.close(() => resolve(true))))
  })

/**
 * Reserves a port for this process until it ends: other test processes look for ports at the same time, and a port looks free
 * to all of them until something listens on it. The name is an abstract socket of Linux, which disappears with the process.
 */
const reserve = (port: number): Promise<boolean> =>
  process.platform === 'linux' ? canListen({ path: `\0platform-test-port-${port}` }, true) : Promise.resolve(true)

/**
 * Returns a port that was free just now, and on Linux was given to no other caller; an issuer has to know its port before it
 * listens. choose: proposes ports until one is free.
 */
export async function freePort(choose = () => randomInt(FIRST, END)): Promise<number> {
  for (;;) {
    const port = choose()
    if ((await reserve(port)) && (await canListen({ port, host: '127.0.0.1' }, false))) return port
  }
}
