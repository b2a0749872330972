import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { NAME_SERVER } from './egress-rules.ts'
import type { Egress, Mount, SandboxLimits } from './sandbox.ts'

/** The user id of every command, as seen inside. */
const INNER_USER = 1000
const SHARED_MEMORY_BYTES = 16 * 1024 * 1024

/** Files of the machine's /etc that programs need and that reveal nothing. */
const ETC = [
  '/etc/alternatives',
  '/etc/ca-certificates',
  '/etc/ca-certificates.conf',
  '/etc/ld.so.cache',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
  '/etc/localtime',
  '/etc/mime.types',
  '/etc/pki/ca-trust',
  '/etc/pki/tls/certs',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
]

/** Writes replacements for the machine's files in /etc. folder: absolute; created. Returns them as mounts. */
export function writeEtc(folder: string, egress: Egress): Mount[] {
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const resolver =
    egress === 'host' && existsSync('/etc/resolv.conf')
      ? readFileSync('/etc/resolv.conf', 'utf8')
      : egress === 'public'
        ? `nameserver ${NAME_SERVER}\n`
        : ''
  const files = {
    passwd: `root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nfunction:x:${INNER_USER}:${INNER_USER}::/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
    group: `root:x:0:\nfunction:x:${INNER_USER}:\nnogroup:x:65534:\n`,
    hosts: '127.0.0.1 localhost sandbox\n::1 localhost\n',
    hostname: 'sandbox\n',
    'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
    'resolv.conf': resolver,
  }
  return Object.entries(files).map(([name, text]) => {
    writeFileSync(join(folder, name), text, { mode: 0o644 })
    return { source: join(folder, name), target: `/etc/${name}` }
  })
}

/** The machine's programs and libraries, in the same layout: some are links into /usr. */
function listSystem(): string[] {
  return [
    '/bin',
    '/sbin',
    ...readdirSync('/')
      .filter((name) => /^lib\w*$/.test(name))
      .map((name) => `/${name}`),
  ].flatMap((path) => {
    if (!existsSync(path)) return []
    return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
  })
}

/** Arguments common to all commands: walls, and the files of the machine that commands may read. */
export function createBaseArguments(): string[] {
  // prettier-ignore
  return [
    // --unshare-all alone only tries for a user namespace.
    '--unshare-all', '--unshare-user', '--disable-userns', '--cap-drop', 'ALL', '--new-session', '--die-with-parent',
    '--uid', String(INNER_USER), '--gid', String(INNER_USER), '--hostname', 'sandbox', '--clearenv',
    '--ro-bind', '/usr', '/usr', ...listSystem(),
    ...ETC.flatMap((path) => (existsSync(path) ? ['--ro-bind', path, path] : [])),
    '--proc', '/proc', '--dev', '/dev', '--size', String(SHARED_MEMORY_BYTES), '--tmpfs', '/dev/shm', '--remount-ro', '/dev',
  ]
}

export interface CommandArguments {
  base: string[]
  mounts: Mount[]
  /** The command has joined a namespace or shares the machine's network, so bubblewrap makes none. */
  hasNetwork: boolean
  /** File descriptor of the system call filter. */
  seccomp: number | undefined
  env: Record<string, string>
  workingDirectory: string
  limits: SandboxLimits
  argv: string[]
}

/** Arguments of bwrap for one command. */
export function createArguments(command: CommandArguments): string[] {
  return [
    ...command.base,
    ...(command.hasNetwork ? ['--share-net'] : []),
    ...(command.seccomp === undefined ? [] : ['--seccomp', String(command.seccomp)]),
    '--size',
    String(command.limits.tmpBytes),
    '--tmpfs',
    '/tmp',
    ...Object.entries(command.env).flatMap(([name, value]) => ['--setenv', name, value]),
    // Outer folders first: a mount hides what was mounted below its target.
    ...command.mounts
      .toSorted((a, b) => a.target.length - b.target.length)
      .flatMap(({ source, target, isWritable }) => [isWritable === true ? '--bind' : '--ro-bind', source, target]),
    // Otherwise the root, which is in memory, could be filled without a limit.
    '--remount-ro',
    '/',
    '--chdir',
    command.workingDirectory,
    '--',
    ...command.argv,
  ]
}

/** Mounts for the running Node, if it is not among the machine's own programs. */
export function listNodeMounts(): Mount[] {
  const executable = realpathSync(process.execPath)
  const targets = new Set([executable, process.execPath])
  return [...targets].filter((target) => !target.startsWith('/usr/')).map((target) => ({ source: executable, target }))
}
