import { createServer } from 'node:net'
import { randomInt } from 'node:crypto'

/** Below what Linux gives to outgoing connections and to servers that ask for any port, so none of those comes between. */
const [FIRST, END] = [10_000, 32_768]

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })

/** A port that was free a moment ago; an issuer has to know its own before it listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END)
    if (await isFree(port)) return port
  }
}
