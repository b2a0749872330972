import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'

/** Parts of the platform, by what their command line matches; a process that matches none is named after its program. */
const partsByCommand: readonly (readonly [RegExp, string])[] = [
  [/\bhash-process\.ts/, 'hasher'],
  [/\bservices\/api\/src\/main\.ts/, 'API'],
  [/\bservices\/idp\/src\/main\.ts/, 'identity provider'],
  [/\binfra\/launcher\/main\.ts/, 'launcher'],
  [/^postgres: |\/postgres /, 'Postgres'],
  [/^npm /, 'npm'],
]

interface PartMemory {
  processes: number
  /** Bytes that belong to no file: heaps, stacks, and pages of a file that the process has changed. */
  anonymous: number
}

export interface PlatformMemory extends PartMemory {
  byPart: ReadonlyMap<string, PartMemory>
  /** Bytes of PSS, where a page of a file counts once and whole, as if no other program had it open. */
  proportional: number
}

const PAGE_BYTES = 4096
const ENTRY_BYTES = 8
/** Bits 61 and 63 of an entry of /proc/PID/pagemap, in its last byte: the page is a file's, and it is resident. */
const FILE_PAGE = 0b1010_0000

/** Measures a process and everything below it. Linux only, and only for their owner or root. Processes that end meanwhile do not count. */
export function measurePlatform(pid: number): PlatformMemory {
  const byPart = new Map<string, PartMemory>()
  const filePages = new Map<string, Set<number>>()
  const whole = { processes: 0, anonymous: 0, proportional: 0 }
  for (const each of listTree(pid)) {
    const rollup = read(each, 'smaps_rollup')
    const bytesOf = (field: string): number =>
      Number(new RegExp(String.raw`^${field}: +(\d+) kB`, 'm').exec(rollup)?.[1] ?? 0) * 1024
    const anonymous = bytesOf('Anonymous')
    if (anonymous === 0) continue
    const name = nameOf(each)
    const part = byPart.get(name) ?? { processes: 0, anonymous: 0 }
    byPart.set(name, { processes: part.processes + 1, anonymous: part.anonymous + anonymous })
    whole.processes += 1
    whole.anonymous += anonymous
    whole.proportional += bytesOf('Pss_Anon') + bytesOf('Pss_Shmem')
    addFilePages(each, filePages)
  }
  for (const pages of filePages.values()) whole.proportional += pages.size * PAGE_BYTES
  return { ...whole, byPart }
}

/** Its parts as lines of text, the largest first, in MiB. */
export function describeMemory({ byPart, processes, anonymous, proportional }: PlatformMemory): string {
  const line = (name: string, count: number, bytes: number) =>
    `${name.padEnd(20)}${String(count).padStart(3)} ${count === 1 ? 'process  ' : 'processes'}${mebibytes(bytes).padStart(8)}`
  return [
    ...[...byPart]
      .toSorted(([, a], [, b]) => b.anonymous - a.anonymous)
      .map(([name, part]) => line(name, part.processes, part.anonymous)),
    `${line('anonymous, MiB', processes, anonymous)}\n${'PSS, MiB'.padEnd(33)}${mebibytes(proportional).padStart(8)}`,
  ].join('\n')
}

const mebibytes = (bytes: number): string => (bytes / 1024 ** 2).toFixed(1)

function listTree(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (Number.isNaN(pid)) continue
    const parent = Number(/\) \S (\d+)/.exec(read(pid, 'stat'))?.[1])
    children.set(parent, [...(children.get(parent) ?? []), pid])
  }
  const tree = [root]
  for (const pid of tree) tree.push(...(children.get(pid) ?? []))
  return tree
}

function nameOf(pid: number): string {
  const command = read(pid, 'cmdline').replaceAll('\0', ' ')
  return partsByCommand.find(([pattern]) => pattern.test(command))?.[1] ?? read(pid, 'comm').trim()
}

/** Adds the resident pages of the files that a process has mapped, by device and inode. */
function addFilePages(pid: number, filePages: Map<string, Set<number>>): void {
  let pagemap: number
  try {
    pagemap = openSync(`/proc/${pid}/pagemap`, 'r')
  } catch {
    return // it has ended
  }
  try {
    for (const [, from, to, offset, file] of read(pid, 'maps').matchAll(
      /^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) (\S+ [1-9]\d*) /gm,
    )) {
      const first = parseInt(from!, 16) / PAGE_BYTES
      const count = parseInt(to!, 16) / PAGE_BYTES - first
      const firstOfFile = parseInt(offset!, 16) / PAGE_BYTES
      const entries = Buffer.alloc(count * ENTRY_BYTES)
      readSync(pagemap, entries, 0, entries.length, first * ENTRY_BYTES)
      const pages = filePages.get(file!) ?? new Set()
      filePages.set(file!, pages)
      for (let index = 0; index < count; index++)
        if ((entries[index * ENTRY_BYTES + 7]! & FILE_PAGE) === FILE_PAGE) pages.add(firstOfFile + index)
    }
  } finally {
    closeSync(pagemap)
  }
}

/** A file of a process; empty if it has ended. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}
