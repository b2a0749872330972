import { connect, createServer, type Socket } from 'node:net'

/** A connection to a server that tests can break. */
export interface Cable {
  /** The server's URL through the cable. */
  url: string
  /** Breaks existing connections and refuses new ones. */
  cut(): void
  mend(): Promise<void>
  /** Keeps the connections open and forwards nothing, like a server that is suspended. */
  hang(): void
  /** Forwards what is sent to the server, and holds back its answers until `wake`. */
  holdAnswers(): void
  wake(): void
  close(): void
}

/** Starts a TCP forwarder on 127.0.0.1 to the host and port of a URL. */
export async function startCable(to: URL): Promise<Cable> {
  const open = new Set<Socket>()
  const fars = new Set<Socket>()
  let isHanging = false
  const server = createServer((socket) => {
    const far = connect(Number(to.port || 5432), to.hostname)
    fars.add(far)
    far
      .on('error', () => socket.destroy())
      .on('close', () => {
        fars.delete(far)
        socket.destroy()
      })
    open.add(socket)
    socket
      .on('error', () => {})
      .on('close', () => {
        open.delete(socket)
        far.destroy()
      })
    socket.pipe(far).pipe(socket)
    if (isHanging) socket.pause()
  })
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as { port: number }
  const url = new URL(to)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return {
    url: url.href,
    cut() {
      server.close()
      for (const socket of open) socket.destroy()
    },
    mend: () => listen(port),
    hang() {
      isHanging = true
      for (const socket of open) socket.pause()
    },
    holdAnswers() {
      for (const far of fars) far.pause()
    },
    wake() {
      isHanging = false
      for (const socket of [...open, ...fars]) socket.resume()
    },
    close: () => server.close(),
  }
}
