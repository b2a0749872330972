import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { quote } from '@platform/sandbox/run-program'
import { inheritedEnvironment, isCi } from '@platform/testkit/test-environment'
import { type Container, containerOf, findKubectlObstacle, type Workload } from '@platform/testkit/kubernetes-manifests'

/** The pod has this checkout in the place of the image's, at its own path: the cache of compiled modules goes by paths. */
const REPOSITORY = resolve(import.meta.dirname, '../../..')
const SYSTEM_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
/** What a node maps the users of a pod to that has its own. */
const USERS = '0 100000 65536'
/** Mounts of the container, put together in a mount namespace of its own: nothing of them is seen outside. */
const STAGE = '/mnt/stage'
const ROOT = '/mnt/root'

/** What container runtimes hide of /proc where `procMount` is Default, and what they make read-only. */
const MASKED = ['acpi', 'kcore', 'keys', 'latency_stats', 'timer_list', 'timer_stats', 'sched_debug', 'scsi']
const READ_ONLY = ['asound', 'bus', 'fs', 'irq', 'sys', 'sysrq-trigger']

/** Files of /etc that the image has as well, and that say nothing of this machine. */
const ETC = ['alternatives', 'ca-certificates', 'iproute2', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'pki', 'ssl']
const FILES_OF_ETC = {
  passwd: 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\nnobody:x:65534:65534:::\n',
  group: 'root:x:0:\nnode:x:1000:\nnogroup:x:65534:\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/** In the place of tini, which the image has: passes SIGTERM on, and reaps what is orphaned. */
const INIT = `trap 'kill -TERM "$child"' TERM
"$@" & child=$!
while :; do wait "$child"; code=$?; kill -0 "$child" 2> /dev/null || exit "$code"; done`

/**
 * A Perl program that mounts a folder as a node mounts a volume: what root of the machine owns, root of the pod owns. Its arguments are
 * the folder, where to mount it, and the file of a user namespace.
 */
const IDMAP = String.raw`my ($source, $target, $users) = @ARGV;
sub call { my $result = syscall(shift, @_); die "$source cannot be mapped: $!\n" if $result < 0; $result }
my ($cwd, $empty) = (-100, "");
my $tree = call(428, $cwd, $source, 1);
open(my $namespace, "<", $users) or die "$users: $!\n";
my $attributes = pack("Q4", 0x100000, 0, 0, fileno($namespace));
call(442, $tree, $empty, 0x1000, $attributes, 32);
call(429, $tree, $empty, $cwd, $target, 4);`

export interface PodOptions {
  deployment: Workload
  name: string
  env: Record<string, string>
  /** Text of /etc/resolv.conf. */
  resolver: string
  /** Those that volumes are made of, by name. */
  configMaps: Record<string, Record<string, string>>
  /** Folders of this machine as volumes, by their path in the pod, besides those of the spec. */
  volumes?: Record<string, string>
  /** Gives the network namespace of a process its interface. */
  attach: (pid: number) => void
}

export interface Pod {
  /** The first process of the pod, as this machine counts. */
  readonly pid: number
  /** What was written to stdout and stderr until now. */
  log: () => string
  /** Settles with the exit code and all output. */
  ended: Promise<{ code: number | null; log: string }>
  /** Runs a program beside the container's own, as `kubectl exec` does, and returns what it prints. Throws if it fails. */
  exec: (argv: readonly string[]) => Promise<string>
  /** SIGTERM, and after the pod's grace SIGKILL. Returns the exit code. */
  stop: () => Promise<number | null>
  /** Ends all of it at once. */
  kill: () => Promise<void>
}

/** Why no pod can be made here; undefined if one can. Throws in CI. */
export async function findPodObstacle(programs: readonly string[] = []): Promise<string | undefined> {
  const has = (name: string): boolean => SYSTEM_PATH.split(':').some((folder) => existsSync(join(folder, name)))
  // prettier-ignore
  const missing = ['bwrap', 'ip', 'nft', 'nsenter', 'pasta', 'perl', 'pivot_root', 'prlimit', 'setpriv', 'unshare', ...programs].filter((name) => !has(name))
  let obstacle = await findKubectlObstacle()
  if (obstacle !== undefined) obstacle = `they need its manifests, and ${obstacle}`
  else if (process.platform !== 'linux' || process.getuid?.() !== 0) obstacle = 'they need root on Linux'
  else if (missing.length > 0) obstacle = `not installed: ${missing.join(', ')}`
  else
    try {
      const args = ['--user', '--map-root-user', '--mount', '--net', '--pid', '--fork', 'mount', '-t', 'proc', 'proc']
      execFileSync('unshare', [...args, '/proc'], { stdio: 'pipe' })
    } catch (error) {
      obstacle = `no user namespace: ${error instanceof Error ? error.message : 'unknown'}`
    }
  if (obstacle !== undefined && isCi) throw new Error(`In CI pods have to be made by hand: ${obstacle}`)
  return obstacle && `pods made by hand: ${obstacle}`
}

/** What holds for the container of a Deployment: its own, and for the rest the pod's. */
const contextOf = (deployment: Workload): NonNullable<Container['securityContext']> => ({
  ...deployment.spec.template.spec.securityContext,
  ...containerOf(deployment).securityContext,
})

/** Arguments of setpriv that leave a program the capabilities of its container and no others. */
function privilegesOf(deployment: Workload): string[] {
  const { capabilities, runAsUser = 0, ...context } = contextOf(deployment)
  if (!capabilities?.drop?.includes('ALL')) throw new Error('A pod made by hand has only the capabilities it names')
  if (context.privileged === true) throw new Error('A privileged pod is not made by hand')
  for (const profile of [context.seccompProfile, context.appArmorProfile])
    if (runAsUser === 0 && profile?.type !== 'Unconfined') throw new Error('A pod made by hand has no profile')
  const added = (capabilities.add ?? []).map((name) => `+${name.toLowerCase()}`)
  return [
    '--bounding-set',
    ['-all', ...added].join(),
    ...(runAsUser === 0 ? [] : ['--reuid', String(runAsUser), '--regid', String(runAsUser), '--clear-groups']),
    ...(context.allowPrivilegeEscalation === false ? ['--no-new-privs'] : []),
  ]
}

/** Folders of the machine with programs and libraries, some of which are links into /usr. */
const listSystem = (): string[] =>
  readdirSync('/')
    .filter((name) => /^(bin|sbin|lib\w*)$/.test(name))
    .map((name) => `/${name}`)

/** Script for root of the machine, in a mount namespace of its own: everything that the container sees of the machine. */
function stageScript({ volumes = {} }: PodOptions, users: string | undefined): string {
  const node = realpathSync(process.execPath)
  const cache = inheritedEnvironment['NODE_COMPILE_CACHE']
  const sources: [source: string, target: string][] = [
    ['/usr', '/usr'],
    ...listSystem().flatMap((path): [string, string][] => (lstatSync(path).isSymbolicLink() ? [] : [[path, path]])),
    ...ETC.map((name) => `/etc/${name}`).flatMap((path): [string, string][] =>
      existsSync(path) ? [[realpathSync(path), path]] : [],
    ),
    [REPOSITORY, REPOSITORY],
    ...(node.startsWith('/usr/') || node.startsWith(REPOSITORY) ? [] : ([[node, node]] as [string, string][])),
    ...(cache !== undefined && existsSync(cache) ? ([[cache, '/var/cache/node']] as [string, string][]) : []),
  ]
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
  const groups = [...mounts.matchAll(/^\S+ (\S+) cgroup2? /gm)].map(([, mount = '']) => mount)
  const bind = (source: string, target: string): string => {
    const plain = `mount --bind ${quote(source)} ${quote(target)}`
    const mapped = `perl -e ${quote(IDMAP)} ${[source, target, users ?? ''].map(quote).join(' ')}`
    if (users === undefined || source.startsWith('/usr')) return plain
    // What is only read may belong to nobody, where a file system maps no owners.
    return Object.values(volumes).includes(source) ? mapped : `${mapped} 2> /dev/null || ${plain}`
  }
  const stage = ([source, path]: [source: string, path: string]): string[] => {
    const target = `${STAGE}${path}`
    const make = lstatSync(source).isDirectory() ? 'mkdir -p' : 'touch'
    return [`mkdir -p ${quote(dirname(target))}`, `${make} ${quote(target)}`, bind(source, target)]
  }
  return [
    // Groups that the container could write to are not its own.
    ...groups.map((mount) => `mount -o remount,bind,ro ${quote(mount)}`),
    'mount -t tmpfs -o mode=755 tmpfs /mnt',
    `mkdir ${STAGE} ${ROOT}`,
    ...sources.flatMap((source) => [...stage(source), `mount -o remount,bind,ro ${quote(`${STAGE}${source[1]}`)}`]),
    ...Object.entries(volumes).flatMap(([path, folder]) => stage([folder, path])),
  ].join('\n')
}

/** Script for root of the pod, in its namespaces: its files, devices and /proc. What is left of the machine goes. */
function rootScript({ deployment, name, resolver, configMaps }: PodOptions): string {
  const context = contextOf(deployment)
  const mounts = containerOf(deployment).volumeMounts ?? []
  const isUnmasked = context.procMount === 'Unmasked'
  const hidden = (path: string): string =>
    `if [ -d ${path} ]; then mount -t tmpfs -o ro tmpfs ${path}; elif [ -e ${path} ]; then mount --bind dev/null ${path}; fi`
  const kept = (path: string): string =>
    `if [ -e ${path} ]; then mount --bind ${path} ${path}; mount -o remount,bind,ro,nosuid,nodev,noexec ${path}; fi`
  // As the kubelet makes them: an emptyDir is root's, and everybody may write to it.
  const volumes = mounts.flatMap(({ name: volume, mountPath }) => {
    const { emptyDir, configMap } = deployment.spec.template.spec.volumes?.find((each) => each.name === volume) ?? {}
    const files = configMap && (configMaps[configMap.name] ?? (configMap.optional === true ? {} : undefined))
    if (!emptyDir && !files) throw new Error(`The volume ${volume} is not one that a pod made by hand can have`)
    const path = `.${mountPath}`
    return [
      `mkdir -p ${path}; mount -t tmpfs -o mode=${files ? '0755' : '0777'},nosuid,nodev tmpfs ${path}`,
      ...Object.entries(files ?? {}).map(([file, content]) => `printf %s ${quote(content)} > ${path}/${file}`),
      ...(files ? [`mount -o remount,bind,ro,nosuid,nodev ${path}`] : []),
    ]
  })
  const isUnified = existsSync('/sys/fs/cgroup/cgroup.controllers')
  return [
    `mount -t tmpfs -o mode=755 tmpfs ${ROOT}`,
    `cd ${ROOT}`,
    'mkdir -p dev etc proc root run sys tmp var .machine',
    // Before the programs: a checkout below /tmp would disappear under the volume there.
    ...volumes,
    // The order of the list, each mount below those before it.
    `sed -n 's|^[^ ]* ${STAGE}\\(/[^ ]*\\) .*|\\1|p' /proc/self/mounts | while read -r path; do`,
    `  mkdir -p ".$(dirname "$path")"`,
    `  if [ -d "${STAGE}$path" ]; then mkdir -p ".$path"; else touch ".$path"; fi`,
    `  mount --bind "${STAGE}$path" ".$path"`,
    'done',
    ...listSystem().flatMap((path) =>
      lstatSync(path).isSymbolicLink() ? [`ln -s ${quote(readlinkSync(path))} .${path}`] : [],
    ),
    ...Object.entries({
      ...FILES_OF_ETC,
      hostname: `${name}\n`,
      hosts: '127.0.0.1 localhost\n',
      'resolv.conf': resolver,
    }).map(([file, content]) => `printf %s ${quote(content)} > etc/${file}`),
    `hostname ${quote(name)}`,
    'ip link set lo up',
    'mount -t tmpfs -o mode=755,nosuid tmpfs dev',
    'for each in null zero full random urandom tty; do touch dev/$each; mount --bind /dev/$each dev/$each; done',
    'mkdir dev/pts dev/shm',
    'mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts',
    'mount -t tmpfs -o mode=1777,nosuid,nodev,noexec tmpfs dev/shm',
    'ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd',
    'for each in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${each%:*} dev/${each#*:}; done',
    'mount -t proc -o nosuid,nodev,noexec proc proc',
    'mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys',
    isUnified ? 'mount -t cgroup2 -o ro cgroup2 sys/fs/cgroup' : 'mount --rbind /sys/fs/cgroup sys/fs/cgroup',
    ...(isUnmasked
      ? []
      : [...READ_ONLY.map((path) => kept(`proc/${path}`)), ...MASKED.map((path) => hidden(`proc/${path}`))]),
    ...(isUnmasked ? [] : [hidden('sys/firmware')]),
    'pivot_root . .machine',
    'cd /',
    'umount -l /.machine',
    'rmdir /.machine',
    ...(context.readOnlyRootFilesystem === true ? ['mount -o remount,bind,ro /'] : []),
  ].join('\n')
}

/**
 * Makes the pod of a Deployment by hand, with its namespaces, its capabilities, its /proc, devices, variables and volumes, and starts
 * its container; the root of its files is this machine's programs and this checkout. Returns once it runs.
 *
 * Not made: limits, probes, and what refers to other pods. The spec's `hostUsers: false` is taken at its word: without it root of the
 * pod is root of this machine, so such a container has to end by itself.
 */
export async function startPod(options: PodOptions): Promise<Pod> {
  const { deployment, env } = options
  const { spec } = deployment.spec.template
  const container = containerOf(deployment)
  const privileges = privilegesOf(deployment)
  const holder = spec.hostUsers === false ? await holdUsers() : undefined
  const users = holder && `/proc/${holder.pid}/ns/user`
  const variables = {
    PATH: `${dirname(process.execPath)}:${SYSTEM_PATH}`,
    HOSTNAME: options.name,
    HOME: '/root',
    NODE_ENV: 'production',
    ...(inheritedEnvironment['NODE_COMPILE_CACHE'] !== undefined && { NODE_COMPILE_CACHE: '/var/cache/node' }),
    ...env,
  }
  const within = (argv: readonly string[]): string[] => [
    'setpriv',
    ...privileges,
    'env',
    '-i',
    ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
    ...argv,
  ]
  const command = [...(container.command ?? []), ...container.args]
  const start = [
    'echo made; read -r go',
    rootScript(options),
    `cd ${quote(REPOSITORY)}`,
    `exec ${within(['/bin/sh', '-c', INIT, 'sh', ...command])
      .map(quote)
      .join(' ')} < /dev/null`,
  ].join('\n')
  const namespaces = ['--mount', '--net', '--pid', '--ipc', '--uts', '--cgroup', '--fork', '--kill-child']
  const enter = users === undefined ? [] : ['nsenter', `--user=${users}`, '--setuid', '0', '--setgid', '0']
  const whole = `${stageScript(options, users)}\nexec ${[...enter, 'unshare', ...namespaces, '/bin/sh', '-ec', start].map(quote).join(' ')}`
  const child = spawn('unshare', ['--mount', '--propagation', 'private', '/bin/sh', '-ec', whole], {
    env: { PATH: SYSTEM_PATH },
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => void (log += chunk))
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, log }))
  await Promise.race([
    once(child.stdout, 'data'),
    ended.then(() => Promise.reject(new Error(`No pod was made: ${log}`))),
  ])
  log = log.replace('made\n', '')
  const pid = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'))
  options.attach(pid)
  child.stdin.end('go\n')
  // Its namespace of users lives on with its processes.
  holder?.stdin?.end()

  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null
  const kill = async (): Promise<void> => {
    if (!isOver()) process.kill(pid, 'SIGKILL')
    await ended
  }
  return {
    pid,
    log: () => log,
    ended,
    kill,
    async exec(argv) {
      const spaces = ['mount', 'net', 'pid', 'ipc', 'uts', 'cgroup', ...(users === undefined ? [] : ['user'])]
      const enter = ['--target', String(pid), ...spaces.map((each) => `--${each}`), '--setuid', '0', '--setgid', '0']
      const run = spawn('nsenter', [...enter, `--wd=${REPOSITORY}`, ...within(argv)], {
        env: { PATH: SYSTEM_PATH },
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      const [said, complained, [code]] = await Promise.all([text(run.stdout), text(run.stderr), once(run, 'exit')])
      if (code !== 0) throw new Error(`${argv.join(' ')} ended with code ${code}: ${said}${complained}`)
      return said
    },
    async stop() {
      if (!isOver()) process.kill(pid, 'SIGTERM')
      const grace = setTimeout(() => void kill(), (spec.terminationGracePeriodSeconds ?? 30) * 1_000)
      const { code } = await ended
      clearTimeout(grace)
      return code
    },
  }
}

/** A process that holds a user namespace of its own, with a pod's users mapped, until its input ends. */
async function holdUsers(): Promise<ChildProcess> {
  const holder = spawn('unshare', ['--user', 'sh', '-c', 'echo made; read -r go'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await once(holder.stdout, 'data')
  for (const kind of ['uid_map', 'gid_map']) writeFileSync(`/proc/${holder.pid}/${kind}`, USERS)
  return holder
}
