import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** The state of a listening socket in /proc/net/tcp. */
const LISTEN = '0A'

/** Reads what may be gone by then, or belong to another user. */
function attempt<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

/** Ports by the inode of their socket. */
function listListening(): Map<string, number> {
  const ports = new Map<string, number>()
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6'])
    for (const line of attempt(() => readFileSync(table, 'latin1'), '')
      .split('\n')
      .slice(1)) {
      const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/)
      if (state === LISTEN) ports.set(inode, Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16))
    }
  return ports
}

/** A process and all that it has started. */
function listTree(pid: number): Set<number> {
  const parents = new Map<number, number>()
  for (const name of attempt(() => readdirSync('/proc'), [])) {
    if (!/^\d+$/.test(name)) continue
    // The name of a program, in brackets, may hold anything.
    const stat = attempt(() => readFileSync(`/proc/${name}/stat`, 'latin1'), '')
    parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  const tree = new Set([pid])
  for (let before = 0; before !== tree.size;) {
    before = tree.size
    for (const [child, parent] of parents) if (tree.has(parent)) tree.add(child)
  }
  return tree
}

/** The TCP ports on which a process, or one that it started, listens. None where there is no /proc. */
export function portsOf(pid: number): number[] {
  const listening = listListening()
  const ports = new Set<number>()
  for (const each of listTree(pid))
    for (const descriptor of attempt(() => readdirSync(`/proc/${each}/fd`), [])) {
      const target = attempt(() => readlinkSync(`/proc/${each}/fd/${descriptor}`), '')
      const port = listening.get(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? '')
      if (port !== undefined) ports.add(port)
    }
  return [...ports].sort((a, b) => a - b)
}
