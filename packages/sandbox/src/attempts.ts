/** An action that untrusted code may try, and its expected result in the sandbox. */
export interface Attempt {
  name: string
  /**
   * Body of a JavaScript function; its return value or error is the answer. In scope: `fs`, `os`, `net`, `run`, `call` and
   * `world`.
   */
  code: string
  answer: RegExp
}

/** Targets of the attempts on the machine, reachable if there were no walls. */
export interface AttemptWorld {
  /** A file of the machine that everybody may read. */
  hostFile: string
  /** A process of the machine whose environment and arguments hold `marker`. */
  hostPid: number
  marker: string
  /** Sockets on which a process of the machine listens. */
  hostSocket: string
  hostAbstractSocket: string
  hostPort: number
  /** Sockets on which a command of another deployment listens. */
  neighbourAbstractSocket: string
  neighbourPort: number
  /** Numbers of system calls that the filter refuses. */
  denied: Record<string, number>
  socketCall: number
  socketPairCall: number
}

/**
 * Helpers for attempts in the sandbox: `call` makes a system call by its number and returns the error number; `$room` is
 * memory that it may write.
 */
export const ATTEMPT_PRELUDE = String.raw`
const fs = require('node:fs'), os = require('node:os'), net = require('node:net')
const { spawnSync } = require('node:child_process')
const world = JSON.parse(process.env.WORLD)
const run = (...argv) => { const { status, signal, stdout, stderr } = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' }); return (signal ?? status) + ' ' + stdout + stderr }
const call = (number, ...args) => run('/usr/bin/perl', '-e', 'my $room = chr(0) x 64; my $r = syscall(' + [number, ...args].join(',') + '); print $r < 0 ? "errno " . ($!+0) : "returned $r"')
const connect = (options) => new Promise((resolve) => net.connect(options).on('connect', () => resolve('connected')).on('error', (error) => resolve(error.code)))
`

const GONE = /^ENOENT/
const read = (path: string): string => `return fs.readFileSync(${path}, 'utf8')`

export const ATTEMPTS: Attempt[] = [
  { name: 'read the passwords of the machine', code: read(`'/etc/shadow'`), answer: GONE },
  { name: 'read a file of the machine', code: read('world.hostFile'), answer: GONE },
  {
    name: 'see the folders of the machine',
    code: `return fs.readdirSync('/').filter((name) => !/^(bin|sbin|lib\\w*|usr|etc|proc|dev|tmp|own|code)$/.test(name) && name !== process.execPath.split('/')[1]).join()`,
    answer: /^$/,
  },
  {
    name: 'see the folders of other deployments',
    code: `return fs.readdirSync('/own').concat(fs.readdirSync('/tmp').filter((name) => !process.execPath.startsWith('/tmp/' + name))).join()`,
    answer: /^$/,
  },
  {
    name: 'see processes of the machine, their arguments and environment',
    code: `return fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).flatMap((pid) => ['cmdline', 'environ'].map((file) => { try { return fs.readFileSync('/proc/' + pid + '/' + file, 'utf8').replace(process.env.WORLD, '') } catch { return '' } })).some((text) => text.includes(world.marker))`,
    answer: /^false$/,
  },
  {
    name: 'read the environment of the first process',
    code: `try { return fs.readFileSync('/proc/1/environ', 'utf8').split('\\0').filter((line) => line !== '' && !/^(PATH|PWD|OLDPWD)=/.test(line)).join() } catch (error) { return error.code }`,
    answer: /^(EACCES)?$/,
  },
  {
    name: 'enter the machine by the root of the first process',
    code: `return fs.readdirSync('/proc/1/root/root')`,
    answer: /^(ENOENT|EACCES)/,
  },
  {
    name: 'signal a process of the machine',
    code: `return process.kill(world.hostPid, 0)`,
    answer: /ESRCH/,
  },
  {
    name: 'write to a read-only mount',
    code: `return fs.writeFileSync('/code/index.js', 'changed')`,
    answer: /^EROFS/,
  },
  {
    name: 'write to the programs of the machine',
    code: `return fs.writeFileSync('/usr/bin/new', '')`,
    answer: /^EROFS/,
  },
  {
    name: 'write beside its folders, where no limit of files holds',
    code: `return ['/', '/etc/', '/dev/'].map((folder) => { try { fs.writeFileSync(folder + 'new', ''); return 'written' } catch (error) { return error.code } }).join()`,
    answer: /^EROFS,EROFS,EROFS$/,
  },
  {
    name: 'change its own limits, or the machine, in /proc/sys',
    code: `return ['kernel/hostname', 'kernel/core_pattern', 'vm/overcommit_memory', 'user/max_user_namespaces', 'net/ipv4/ip_forward'].map((name) => { try { fs.writeFileSync('/proc/sys/' + name, '1'); return 'written' } catch (error) { return error.code } }).join()`,
    answer: /^((EROFS|EACCES|ENOENT|EPERM),?)+$/,
  },
  {
    name: 'press the magic keys of the machine',
    code: `return fs.writeFileSync('/proc/sysrq-trigger', 'b')`,
    answer: /^(EROFS|EACCES|ENOENT)/,
  },
  {
    name: 'read the memory of the machine',
    code: `return ['/dev/mem', '/dev/kmem', '/dev/port', '/proc/kcore'].map((path) => { try { return fs.readSync(fs.openSync(path), Buffer.alloc(8)) } catch (error) { return error.code } }).join()`,
    answer: /^ENOENT,ENOENT,ENOENT,(EACCES|EPERM|ENOENT|0)$/,
  },
  {
    name: 'find devices of the machine',
    code: `return fs.readdirSync('/dev').filter((name) => !/^(console|core|fd|full|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero)$/.test(name)).join()`,
    answer: /^$/,
  },
  {
    name: 'make a device',
    code: `return run('/usr/bin/mknod', '/tmp/device', 'b', '8', '0')`,
    answer: /Operation not permitted/,
  },
  { name: 'see or change control groups', code: `return fs.existsSync('/sys')`, answer: /^false$/ },
  {
    name: 'mount',
    code: `return run('/usr/bin/mount', '-t', 'tmpfs', 'none', '/tmp')`,
    answer: /permi|must be superuser/i,
  },
  {
    name: 'make a namespace of users, where it would be root',
    code: `return run('/usr/bin/unshare', '--user', '--map-root-user', 'id')`,
    answer: /Operation not permitted/,
  },
  {
    name: 'enter another namespace',
    code: `return run('/usr/bin/nsenter', '--net=/proc/1/ns/net', 'id')`,
    answer: /Operation not permitted|Permission denied/,
  },
  { name: 'become root by a program that is', code: `return run('/usr/bin/su', '-c', 'id -u')`, answer: /^[^0]/ },
  {
    name: 'get rights that were dropped',
    code: `return /CapEff:\\s+0{16}/.test(fs.readFileSync('/proc/self/status', 'utf8')) && /CapBnd:\\s+0{16}/.test(fs.readFileSync('/proc/self/status', 'utf8')) && /NoNewPrivs:\\s+1/.test(fs.readFileSync('/proc/self/status', 'utf8'))`,
    answer: /^true$/,
  },
  {
    name: 'link a file of a read-only mount into its folder',
    code: `return fs.linkSync('/code/index.js', '/own/index.js')`,
    answer: /^(EXDEV|EPERM|EROFS)/,
  },
  {
    name: 'reach the machine by a link in its folder',
    code: `fs.symlinkSync(world.hostFile, '/own/link'); try { return fs.readFileSync('/own/link', 'utf8') } finally { fs.unlinkSync('/own/link') }`,
    answer: GONE,
  },
  { name: 'connect to a socket of the machine', code: `return connect(world.hostSocket)`, answer: GONE },
  {
    name: 'connect to an abstract socket of the machine',
    code: `return connect('\\0' + world.hostAbstractSocket)`,
    answer: /^ECONNREFUSED/,
  },
  {
    name: 'connect to an abstract socket of another deployment',
    code: `return connect('\\0' + world.neighbourAbstractSocket)`,
    answer: /^ECONNREFUSED/,
  },
  { name: 'connect to a port of the machine', code: `return connect(world.hostPort)`, answer: /^ECONNREFUSED/ },
  {
    name: 'connect to a port of another deployment',
    code: `return connect(world.neighbourPort)`,
    answer: /^ECONNREFUSED/,
  },
  { name: 'open a raw socket', code: `return call(world.socketCall, 2, 3, 1)`, answer: /errno 1$/ },
  {
    name: 'open a socket to the hypervisor, or of another odd family',
    code: `return [17, 38, 40, 44].map((family) => call(world.socketCall, family, 1, 0)).join()`,
    answer: /^(0 errno 97,?){4}$/,
  },
  {
    name: 'open a pair of sockets of an odd family',
    code: `return [2, 16, 17, 30, 38, 40, 44].map((family) => call(world.socketPairCall, family, 2, 0, '$room')).join()`,
    answer: /^(0 errno 97,?){7}$/,
  },
  {
    name: 'open a socket of a rare protocol, such as MPTCP, SCTP or L2TP',
    code: `return [[2, 1, 262], [10, 1, 262], [2, 1, 132], [2, 5, 132], [2, 5, 0], [2, 0x80005, 0], [2, 2, 115], [2, 2, 136], [2, 6, 33]].map((each) => call(world.socketCall, ...each)).join()`,
    answer: /^(0 errno 93,?){9}$/,
  },
  {
    name: 'put the kernel’s TLS on a connection',
    code: `return run('/usr/bin/perl', '-MSocket', '-e', 'socket(my $s, AF_INET, SOCK_STREAM, 0); print setsockopt($s, 6, 31, "tls") ? "done" : "errno " . ($!+0)')`,
    answer: /errno 1$/,
  },
  {
    name: 'send urgent data by a Unix socket',
    code: `return run('/usr/bin/perl', '-MSocket', '-e', 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0); print defined send($a, "x", MSG_OOB) ? "sent" : "errno " . ($!+0)')`,
    answer: /errno 95$/,
  },
  {
    name: 'load another driver for a terminal',
    code: `return run('/usr/bin/perl', '-e', 'open(my $t, "+<", "/dev/ptmx") or die $!; my $n = pack("i", 0); print ioctl($t, 0x5423, $n) ? "done" : "errno " . ($!+0)')`,
    answer: /errno 1$/,
  },
  {
    name: 'start the machine’s collector of crashes by crashing',
    code: `return /^Max core file size\\s+1\\s+1\\s/m.test(fs.readFileSync('/proc/self/limits', 'utf8'))`,
    answer: /^true$/,
  },
  {
    name: 'find open files of the platform',
    code: `return run('/usr/bin/perl', '-e', 'opendir(my $d, "/proc/self/fd"); print join ",", map { readlink "/proc/self/fd/$_" } grep { /^[0-9]+$/ && $_ > 3 } readdir $d')`,
    // Instead of the platform's own command line.
    answer: /^0 (\/dev\/null,?)*$/,
  },
  {
    name: 'ask the kernel about rules of the network',
    code: `return call(world.socketCall, 16, 3, 12)`,
    answer: /errno 97$/,
  },
  {
    name: 'type into the terminal of the platform',
    code: `return run('/usr/bin/perl', '-e', 'my $c = "x"; print ioctl(STDIN, 0x5412, $c) ? "typed" : "errno " . ($!+0)')`,
    answer: /errno (1|25)$/,
  },
  {
    name: 'use system calls that reach deep into the kernel',
    code: `return Object.entries(world.denied).map(([name, number]) => [name, call(number, 0, 0, 0, 0, 0, 0)]).filter(([, answer]) => answer !== '0 errno 1').join()`,
    answer: /^$/,
  },
  {
    name: 'make a process in another namespace by the newer call',
    code: `return call(435, 0, 0)`,
    answer: /errno 38$/,
  },
  {
    name: 'use the system calls of another architecture',
    code: `return process.arch === 'x64' ? call(0x40000000 + 39) : 'SIGSYS'`,
    answer: /^SIGSYS/,
  },
  { name: 'learn the name of the machine', code: `return os.hostname()`, answer: /^sandbox$/ },
  {
    name: 'see shared memory of the machine',
    code: `return fs.readFileSync('/proc/sysvipc/shm', 'utf8').trim().split('\\n').length`,
    answer: /^1$/,
  },
]
