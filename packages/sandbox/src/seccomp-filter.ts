/** The system calls of a processor architecture, as a filter needs them. */
interface Architecture {
  /** AUDIT_ARCH_… of linux/audit.h. */
  audit: number
  denied: Record<string, number>
  /** Calls that allocate memory which belongs to no process: only control groups count it. */
  uncounted: Record<string, number>
  clone: number
  clone3: number
  ioctl: number
  personality: number
  socket: number
  socketpair: number
  setsockopt: number
  sendto: number
  sendmsg: number
  sendmmsg: number
  /** Numbers from here on belong to another ABI of the same processor (x32). */
  foreignFrom?: number
}

/** Calls added since Linux 5.1 have the same number on every architecture. */
const SHARED = {
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  pidfd_getfd: 438,
  process_madvise: 440,
  mount_setattr: 442,
  quotactl_fd: 443,
  set_mempolicy_home_node: 450,
  memfd_secret: 447,
  statmount: 457,
  listmount: 458,
  open_tree_attr: 467,
}

const ARCHITECTURES: Partial<Record<NodeJS.Architecture, Architecture>> = {
  x64: {
    audit: 0xc000003e,
    clone: 56,
    clone3: 435,
    ioctl: 16,
    personality: 135,
    socket: 41,
    socketpair: 53,
    setsockopt: 54,
    sendto: 44,
    sendmsg: 46,
    sendmmsg: 307,
    foreignFrom: 0x40000000,
    uncounted: { shmget: 29, memfd_create: 319 },
    denied: {
      ...SHARED,
      ptrace: 101,
      uselib: 134,
      ustat: 136,
      sysfs: 139,
      syslog: 103,
      modify_ldt: 154,
      pivot_root: 155,
      chroot: 161,
      sync: 162,
      acct: 163,
      settimeofday: 164,
      mount: 165,
      umount2: 166,
      swapon: 167,
      swapoff: 168,
      reboot: 169,
      sethostname: 170,
      setdomainname: 171,
      iopl: 172,
      ioperm: 173,
      init_module: 175,
      delete_module: 176,
      quotactl: 179,
      lookup_dcookie: 212,
      clock_settime: 227,
      mbind: 237,
      set_mempolicy: 238,
      kexec_load: 246,
      add_key: 248,
      request_key: 249,
      keyctl: 250,
      migrate_pages: 256,
      unshare: 272,
      move_pages: 279,
      perf_event_open: 298,
      fanotify_init: 300,
      name_to_handle_at: 303,
      open_by_handle_at: 304,
      clock_adjtime: 305,
      syncfs: 306,
      setns: 308,
      process_vm_readv: 310,
      process_vm_writev: 311,
      kcmp: 312,
      finit_module: 313,
      kexec_file_load: 320,
      bpf: 321,
      userfaultfd: 323,
    },
  },
  arm64: {
    audit: 0xc00000b7,
    clone: 220,
    clone3: 435,
    ioctl: 29,
    personality: 92,
    socket: 198,
    socketpair: 199,
    setsockopt: 208,
    sendto: 206,
    sendmsg: 211,
    sendmmsg: 269,
    uncounted: { shmget: 194, memfd_create: 279 },
    denied: {
      ...SHARED,
      lookup_dcookie: 18,
      umount2: 39,
      mount: 40,
      pivot_root: 41,
      chroot: 51,
      quotactl: 60,
      sync: 81,
      acct: 89,
      unshare: 97,
      kexec_load: 104,
      init_module: 105,
      delete_module: 106,
      clock_settime: 112,
      syslog: 116,
      ptrace: 117,
      reboot: 142,
      sethostname: 161,
      setdomainname: 162,
      settimeofday: 170,
      add_key: 217,
      request_key: 218,
      keyctl: 219,
      swapon: 224,
      swapoff: 225,
      mbind: 235,
      set_mempolicy: 237,
      migrate_pages: 238,
      move_pages: 239,
      perf_event_open: 241,
      fanotify_init: 262,
      name_to_handle_at: 264,
      open_by_handle_at: 265,
      clock_adjtime: 266,
      syncfs: 267,
      setns: 268,
      process_vm_readv: 270,
      process_vm_writev: 271,
      kcmp: 272,
      finit_module: 273,
      bpf: 280,
      userfaultfd: 282,
      kexec_file_load: 294,
    },
  },
}

/** Instructions of linux/bpf_common.h, and return values of linux/seccomp.h. */
const LOAD_WORD = 0x20
const JUMP_IF_EQUAL = 0x15
const JUMP_IF_AT_LEAST = 0x35
const JUMP_IF_ANY_BIT = 0x45
const RETURN = 0x06
const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const errno = (number: number): number => 0x00050000 | number
const EPERM = errno(1)
const ENOSYS = errno(38)
const EOPNOTSUPP = errno(95)
const EAFNOSUPPORT = errno(97)
const EPROTONOSUPPORT = errno(93)

/** Offsets in struct seccomp_data. Arguments are 64 bits wide; flags of interest are in the lower half. */
const NUMBER = 0
const AUDIT = 4
const argument = (index: number): number => 16 + 8 * index

/** CLONE_NEW… of linux/sched.h: mount, cgroup, uts, ipc, user, pid and network namespaces. */
const NAMESPACES = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
/** Socket families that programs legitimately use. Not vsock, which reaches a hypervisor past every namespace. */
const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
/**
 * Allowed protocols of those families: any, ICMP, TCP, UDP and ICMPv6. Others (MPTCP, SCTP, L2TP, …) are rare, and the kernel
 * loads their modules on request.
 */
const PROTOCOLS = [0, 1, 6, 17, 58]
/** A bit that the types RDM, SEQPACKET and DCCP have; streams, datagrams and raw sockets lack it. */
const RARE_TYPE = 4
const SOL_TCP = 6
/** Attaches kernel TLS and the like to a connection. */
const TCP_ULP = 31
/** Urgent data of Unix sockets: rarely used, and a repeated source of kernel bugs. */
const MSG_OOB = 1
/** Requests that inject input into a terminal, and one that loads another driver for it. */
const TERMINAL_REQUESTS = [0x5412, 0x541c, 0x5423]
/** Linux, and the query for the current one. */
const PERSONALITIES = [0, 0xffffffff]

/** System calls by name that the filter refuses on this architecture. */
export function listDeniedCalls(architecture: NodeJS.Architecture): Readonly<Record<string, number>> {
  return ARCHITECTURES[architecture]?.denied ?? {}
}

type Instruction = [code: number, ifTrue: number, ifFalse: number, operand: number]

/**
 * A system call filter for `bwrap --seccomp`: calls that reach past namespaces, other processes or deep into the kernel fail
 * with EPERM. A call of another architecture ends the process. undefined for unknown processors.
 *
 * isMemoryCounted: control groups limit memory that belongs to no process, such as that of memfd_create.
 *
 * Returns struct sock_filter[], little-endian.
 */
export function createSeccompFilter(architecture: NodeJS.Architecture, isMemoryCounted: boolean): Buffer | undefined {
  const known = ARCHITECTURES[architecture]
  if (known === undefined) return undefined
  const program: Instruction[] = []
  const answer = (value: number): Instruction => [RETURN, 0, 0, value]
  /** Runs the body only for this call. */
  const forCall = (number: number, body: Instruction[]): void => {
    program.push([JUMP_IF_EQUAL, 0, body.length, number], ...body)
  }
  program.push([LOAD_WORD, 0, 0, AUDIT], [JUMP_IF_EQUAL, 1, 0, known.audit], answer(KILL_PROCESS))
  program.push([LOAD_WORD, 0, 0, NUMBER])
  if (known.foreignFrom !== undefined) program.push([JUMP_IF_AT_LEAST, 0, 1, known.foreignFrom], answer(KILL_PROCESS))
  // clone3's flags are behind a pointer, which a filter cannot read. C libraries fall back to clone.
  forCall(known.clone3, [answer(ENOSYS)])
  const denied = { ...known.denied, ...(isMemoryCounted ? {} : known.uncounted) }
  for (const number of Object.values(denied)) forCall(number, [answer(EPERM)])
  forCall(known.clone, [
    [LOAD_WORD, 0, 0, argument(0)],
    [JUMP_IF_ANY_BIT, 0, 1, NAMESPACES],
    answer(EPERM),
    answer(ALLOW),
  ])
  const terminal = TERMINAL_REQUESTS.flatMap((each): Instruction[] => [[JUMP_IF_EQUAL, 0, 1, each], answer(EPERM)])
  forCall(known.ioctl, [[LOAD_WORD, 0, 0, argument(1)], ...terminal, answer(ALLOW)])
  const personalities = PERSONALITIES.flatMap((each): Instruction[] => [[JUMP_IF_EQUAL, 0, 1, each], answer(ALLOW)])
  forCall(known.personality, [[LOAD_WORD, 0, 0, argument(0)], ...personalities, answer(EPERM)])
  const protocols = PROTOCOLS.flatMap((each): Instruction[] => [[JUMP_IF_EQUAL, 0, 1, each], answer(ALLOW)])
  const internet: Instruction[] = [
    [LOAD_WORD, 0, 0, argument(1)],
    [JUMP_IF_ANY_BIT, 0, 1, RARE_TYPE],
    answer(EPROTONOSUPPORT),
    [LOAD_WORD, 0, 0, argument(2)],
    ...protocols,
    answer(EPROTONOSUPPORT),
  ]
  forCall(known.socket, [
    [LOAD_WORD, 0, 0, argument(0)],
    [JUMP_IF_EQUAL, 0, 1, AF_UNIX],
    answer(ALLOW),
    [JUMP_IF_EQUAL, 1, 0, AF_INET],
    [JUMP_IF_EQUAL, 0, internet.length, AF_INET6],
    ...internet,
    [JUMP_IF_EQUAL, 1, 0, AF_NETLINK],
    answer(EAFNOSUPPORT),
    // Netlink only for routes and addresses (0), with which a program lists its own.
    [LOAD_WORD, 0, 0, argument(2)],
    [JUMP_IF_EQUAL, 0, 1, 0],
    answer(ALLOW),
    answer(EAFNOSUPPORT),
  ])
  // socketpair names a family like socket, whether or not that family supports pairs.
  forCall(known.socketpair, [
    [LOAD_WORD, 0, 0, argument(0)],
    [JUMP_IF_EQUAL, 0, 1, AF_UNIX],
    answer(ALLOW),
    answer(EAFNOSUPPORT),
  ])
  forCall(known.setsockopt, [
    [LOAD_WORD, 0, 0, argument(1)],
    [JUMP_IF_EQUAL, 1, 0, SOL_TCP],
    answer(ALLOW),
    [LOAD_WORD, 0, 0, argument(2)],
    [JUMP_IF_EQUAL, 0, 1, TCP_ULP],
    answer(EPERM),
    answer(ALLOW),
  ])
  for (const [call, flags] of [
    [known.sendto, 3],
    [known.sendmsg, 2],
    [known.sendmmsg, 3],
  ] as const)
    forCall(call, [
      [LOAD_WORD, 0, 0, argument(flags)],
      [JUMP_IF_ANY_BIT, 0, 1, MSG_OOB],
      answer(EOPNOTSUPP),
      answer(ALLOW),
    ])
  program.push(answer(ALLOW))
  const bytes = Buffer.alloc(program.length * 8)
  for (const [index, [code, ifTrue, ifFalse, operand]] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(ifTrue, index * 8 + 2)
    bytes.writeUInt8(ifFalse, index * 8 + 3)
    bytes.writeUInt32LE(operand >>> 0, index * 8 + 4)
  }
  return bytes
}
