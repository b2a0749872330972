import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

/** An edge's cache over a Unix socket, for all slots of one deployment, which can also fail, stall and lie. */
export interface FakeEdge {
  /** What its clock is ahead of this machine's by, in milliseconds. */
  clockMs: number
  /** What it does in place of answering. undefined: it answers. */
  trouble: ((incoming: IncomingMessage, outgoing: ServerResponse) => void) | undefined
  /** Methods and paths without their queries, as they came. */
  asked: string[]
  values: Map<string, Buffer>
  close(): void
}

interface Change {
  version: number
  tag?: [string, number, number | null]
  key?: [string, string]
}

export async function openFakeEdge(socketPath: string): Promise<FakeEdge> {
  const changes: Change[] = []
  let version = 0
  const server = createServer((incoming, outgoing) => {
    void answer(incoming, outgoing)
  })
  const edge: FakeEdge = {
    clockMs: 0,
    trouble: undefined,
    asked: [],
    values: new Map(),
    close() {
      server.close()
      server.closeAllConnections()
      rmSync(socketPath, { force: true })
    },
  }
  const now = () => Math.floor(performance.timeOrigin + performance.now() + edge.clockMs)

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(incoming.url ?? '', 'http://edge')
    edge.asked.push(`${incoming.method} ${pathname}`)
    if (edge.trouble) {
      edge.trouble(incoming, outgoing)
      return
    }
    const body = Buffer.concat((await incoming.toArray()) as Buffer[])
    const key = pathname.slice(1)
    if (incoming.method === 'PUT') {
      edge.values.set(key, body.subarray(body.indexOf('\n') + 1))
      changes.push({ version: ++version, key: [key, String(incoming.headers['x-writer'])] })
      outgoing.writeHead(204).end()
      return
    }
    if (pathname === '/tags') {
      const { tags, expireSeconds } = JSON.parse(body.toString()) as { tags: string[]; expireSeconds?: number }
      const staleAt = now()
      const expiredAt = expireSeconds === undefined ? null : staleAt + expireSeconds * 1_000
      version += 1
      for (const tag of tags) changes.push({ version, tag: [tag, staleAt, expiredAt] })
      // What comes later begins later.
      while (now() <= staleAt);
    } else if (pathname !== '/changes') {
      const value = edge.values.get(key)
      outgoing.writeHead(value ? 200 : 404).end(value)
      return
    }
    const [process, since] = (searchParams.get('since') ?? '').split('.')
    const isWhole = process !== 'fake'
    const told = changes.filter((each) => isWhole || each.version > Number(since))
    outgoing.writeHead(200).end(
      JSON.stringify({
        now: now(),
        cursor: `fake.${version}`,
        isWhole,
        tags: told.flatMap(({ tag }) => (tag ? [tag] : [])),
        keys: isWhole ? [] : told.flatMap(({ key: each }) => (each ? [each] : [])),
      }),
    )
  }

  await once(server.listen(socketPath), 'listening')
  return edge
}
