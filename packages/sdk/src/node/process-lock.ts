import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A process that holds the lock, or was killed while it did. */
interface Holder {
  /** Of this one time that it takes the lock. */
  id: string
  /** Of the socket on which it listens. */
  address: string
}

type Release = () => Promise<void>

/** Where sockets have no longer names: 108 bytes on Linux, 104 on macOS. Node 22 cuts a longer one off without a word. */
const ADDRESS_BYTES_MAX = 100

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

/**
 * Does the work while no other process of this machine does work under the same path.
 *
 * The holder listens on a socket, and the kernel closes it however the process ends. Waiting for the lock is being connected to
 * that socket: no timer, no guess at how old a lock may be, no process id that another process has by now.
 *
 * A holder that was killed leaves its file behind. Removing it would be a race: the second of two that saw it would remove the lock
 * of the first. So nothing is removed to take the lock over. A dead holder's successor is whoever creates the one file that is named
 * after the dead holder's id, and the next to be killed is succeeded in the same way. The holder at the end of that chain removes
 * it, the first file first.
 */
export async function underLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  let release: Release | undefined
  while (!release) release = await take(path)
  try {
    return await work()
  } finally {
    await release()
  }
}

/** Takes the lock. undefined: another process had it, or was faster, and it is worth another try. */
async function take(path: string): Promise<Release | undefined> {
  const dead: Holder[] = []
  const places = [path]
  for (;;) {
    const place = places.at(-1) ?? path
    const holder = await readHolder(place)
    if (!holder) return claim(path, place, places, dead)
    if (!(await isDead(holder))) return undefined
    dead.push(holder)
    places.push(`${path}.${holder.id}`)
  }
}

async function readHolder(place: string): Promise<Holder | undefined> {
  try {
    return JSON.parse(await readFile(place, 'utf8')) as Holder
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** true: nobody listens there. false: somebody did, and has released the lock or ended in the meantime. */
const isDead = ({ address }: Holder): Promise<boolean> =>
  new Promise((resolve, reject) => {
    connect(address)
      .on('error', (error) => {
        const code = codeOf(error)
        if (code === 'ECONNREFUSED' || code === 'ENOENT') resolve(true)
        // A reset is the end of a connection, even of one that Node has not yet told of.
        else if (code !== 'ECONNRESET') reject(error)
      })
      .on('close', () => resolve(false))
      .resume()
  })

function addressOf(path: string, id: string): string {
  if (process.platform === 'win32') return `\\\\.\\pipe\\${id}`
  const beside = `${path}.${id}.socket`
  return Buffer.byteLength(beside) <= ADDRESS_BYTES_MAX ? beside : join(tmpdir(), `${id}.socket`)
}

async function claim(
  path: string,
  place: string,
  places: readonly string[],
  dead: readonly Holder[],
): Promise<Release | undefined> {
  const id = randomBytes(8).toString('hex')
  const address = addressOf(path, id)
  const waiting = new Set<Socket>()
  const server = createServer((socket) => {
    waiting.add(socket)
    socket.on('error', () => {}).on('close', () => waiting.delete(socket))
  })
  // Not shared with the other workers of a cluster, whose socket would outlive this process.
  server.listen({ path: address, exclusive: true })
  await once(server, 'listening')
  const free = async (...files: string[]): Promise<void> => {
    for (const file of files) await rm(file, { force: true })
    for (const socket of waiting) socket.destroy()
    server.close()
  }
  // A link appears with its content, so that no file is ever found empty.
  const draft = `${path}.${id}.new`
  try {
    await writeFile(draft, JSON.stringify({ id, address } satisfies Holder), { flag: 'wx', mode: 0o600 })
    await link(draft, place)
  } catch (error) {
    await free(draft)
    if (codeOf(error) === 'EEXIST') return undefined
    throw error
  }
  await rm(draft, { force: true })
  const [first] = dead
  // The chain was released while it was walked along: its end is no lock.
  if (first && (await readHolder(path))?.id !== first.id) {
    await free(place)
    return undefined
  }
  const sockets = process.platform === 'win32' ? [] : dead.map((holder) => holder.address)
  return () => free(...places, ...sockets)
}
