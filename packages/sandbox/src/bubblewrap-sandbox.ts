import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createArguments, createBaseArguments, listNodeMounts, writeEtc } from './bubblewrap-arguments.ts'
import { type Journal, RUN_FOLDER, type UserBlock } from './claim.ts'
import type { ControlGroups } from './control-groups.ts'
import { createStdio } from './inherited-descriptors.ts'
import type { JoinedNetwork, NetworkHub } from './network-hub.ts'
import { dataBytes, listDescendants } from './process-tree.ts'
import { createRunningCommands } from './running-commands.ts'
import { quote, runScript, SYSTEM_PATH } from './run-program.ts'
import type { Egress, Mount, Sandbox, SandboxCapabilities, SandboxedCommand, SandboxedProcess } from './sandbox.ts'
import { END_FIRST, NICE, watchProcess } from './sandboxed-process.ts'
import { createSeccompFilter } from './seccomp-filter.ts'

/**
 * How far a user's process limit lies above the command's, if something other than a refused fork detects that the command's
 * limit is reached: the control group, which the kernel checks second, or a count. Ended processes of the user's last command
 * also count until they are reaped.
 */
const SPARE_PROCESSES = 64
/** The longest file that a command may write, unless it sets another limit. */
const FILE_BYTES_MAX = 64 * 1024 * 1024

export interface BubblewrapParts {
  /** Absolute; created if missing. */
  folder: string
  capabilities: SandboxCapabilities
  egress: Egress
  /** Set if egress is public. */
  hub: NetworkHub | undefined
  groups: ControlGroups | undefined
  /** Set if this process may run commands as other users. */
  users: UserBlock | undefined
  journal: Journal
  /** Receives problems that were recovered from. */
  onWarning: (message: string) => void
}

const STAGE = join(RUN_FOLDER, 'stage')
const STAGED_MAX = 40
const FILTER_DESCRIPTOR = 5
/** bubblewrap reports its first process inside here: once that has gone, so have all others inside. */
const INFO_DESCRIPTOR = 4

/** A sandbox by bubblewrap: separate files, processes, users and network. */
export function createBubblewrapSandbox(parts: BubblewrapParts): Sandbox {
  const { folder, capabilities, egress, hub, groups, users, journal, onWarning } = parts
  const base = createBaseArguments()
  const etc = writeEtc(join(folder, 'etc'), egress)
  const node = listNodeMounts()
  const filter = createSeccompFilter(process.arch, groups !== undefined)
  const openFilesMax = readOpenFilesMax()
  const filterFile = join(folder, 'seccomp.bpf')
  if (filter !== undefined) writeFileSync(filterFile, filter)
  if (users !== undefined)
    for (let index = 0; index < STAGED_MAX; index++) {
      mkdirSync(join(STAGE, `folder-${index}`), { recursive: true })
      writeFileSync(join(STAGE, `file-${index}`), '')
    }

  /** Gives a folder, and whatever an earlier command left in it, to the user of the next. */
  const giveTo = async (source: string, user: number): Promise<void> => {
    const { uid } = await stat(source)
    if (uid === user) return
    // chown -R walks by open folder descriptors, so a link put in its way leads nowhere.
    if ((await readdir(source)).length > 0) await runScript(`chown -RhP ${user}:${user} ${quote(source)}`)
    else await chown(source, user, user)
  }

  const launch = async (command: SandboxedCommand, user: number | undefined): Promise<SandboxedProcess> => {
    let network: JoinedNetwork | undefined
    const group = await groups?.create(command.name, command.limits, command.networkId)
    try {
      network = await hub?.join(command.networkId)
      const mounts = [...node, ...etc, ...command.mounts]
      if (user !== undefined)
        for (const { source, isWritable, isGiven } of command.mounts)
          if (isWritable === true || isGiven === true) await giveTo(source, user)
      const staged: string[] = []
      const reachable = mounts.map((mount): Mount => {
        if (user === undefined || isReachable(mount.source)) return mount
        const stage = join(STAGE, `${statSync(mount.source).isDirectory() ? 'folder' : 'file'}-${staged.length}`)
        if (staged.length >= STAGED_MAX)
          throw new Error(`More than ${STAGED_MAX} mounts are below folders that only root may enter`)
        staged.push(`mount --bind ${quote(mount.source)} ${quote(stage)}`)
        return { ...mount, source: stage }
      })
      const {
        processes,
        endsAtProcesses,
        openFiles,
        tmpBytes,
        fileBytes = Math.max(FILE_BYTES_MAX, tmpBytes),
      } = command.limits
      // Each program execs the next, so this is one process. It joins the limits first.
      const script = [
        ...(group?.joinFiles ?? []).map((file) => `echo $$ > ${quote(file)}`),
        ...(group === undefined ? [END_FIRST] : []),
        ...staged,
        ...(filter === undefined ? [] : [`exec ${FILTER_DESCRIPTOR}< ${quote(filterFile)}`]),
        [
          'exec',
          ...(group === undefined ? ['nice', '-n', String(NICE)] : []),
          'prlimit',
          // Not 0: a crash collector of the machine would still be started, as root. 1 means neither a file nor a program.
          '--core=1',
          `--nofile=${Math.min(openFiles, openFilesMax)}`,
          // Writable mounts are on the machine's disk.
          `--fsize=${fileBytes}`,
          ...(user === undefined
            ? []
            : [
                `--nproc=${processes + 2 + (group === undefined && endsAtProcesses !== true ? 0 : SPARE_PROCESSES)}`,
                'setpriv',
                '--reuid',
                String(user),
                '--regid',
                String(user),
              ]),
          ...(user === undefined ? [] : ['--clear-groups', '--no-new-privs']),
          'bwrap',
          '"$@"',
        ].join(' '),
      ].join('\n')
      const args = createArguments({
        base: [...base, '--info-fd', String(INFO_DESCRIPTOR)],
        mounts: reachable,
        hasNetwork: egress !== 'none',
        seccomp: filter === undefined ? undefined : FILTER_DESCRIPTOR,
        env: command.env,
        workingDirectory: command.workingDirectory,
        limits: command.limits,
        argv: command.argv,
      })
      const chain = [
        ...(network === undefined ? [] : ['nsenter', `--net=${network.path}`]),
        // Mounts that only this command sees, gone when it ends.
        ...(staged.length === 0 ? [] : ['unshare', '--mount', '--propagation', 'private']),
        '/bin/sh',
        '-ec',
        script,
        'sh',
        ...args,
      ]
      const child = spawn(chain[0] ?? '/bin/sh', chain.slice(1), {
        cwd: '/',
        env: { PATH: SYSTEM_PATH },
        stdio: createStdio([INFO_DESCRIPTOR]),
      })
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve)
        child.once('error', reject)
      })
      const pid = child.pid ?? 0
      let first: number | undefined
      child.stdio[INFO_DESCRIPTOR]?.once('data', (chunk: Buffer) => {
        first = Number(/"child-pid":\s*(\d+)/.exec(chunk.toString())?.[1])
      })
      journal.add(command.name, pid)
      return watchProcess({
        name: command.name,
        child,
        group,
        limits: command.limits,
        listLeft: () => (first === undefined ? [] : [first]),
        limitGrowth: (bytes) => limitGrowth(pid, user, bytes),
        onWarning,
        onGone: () => {
          journal.remove(command.name)
          network?.leave()
        },
      })
    } catch (error) {
      network?.leave()
      await group?.remove()
      throw error
    }
  }

  const commands = createRunningCommands(async (command) => {
    const user = users?.take()
    const giveBack = (): void => {
      if (user !== undefined) users?.giveBack(user)
    }
    try {
      const started = await launch(command, user)
      void started.exited.then(giveBack)
      return started
    } catch (error) {
      giveBack()
      throw error
    }
  })
  return {
    capabilities,
    egress,
    pathOf: (mount) => mount.target,
    makeWritable: async (path) => {
      await mkdir(path, { recursive: true, mode: 0o700 })
      await chmod(path, 0o700)
    },
    start: (command) => commands.start(command),
    close: async () => {
      await commands.close()
      await hub?.close()
      await groups?.remove()
      users?.release()
    },
  }
}

/** Whether another user can traverse all folders above a path. */
function isReachable(path: string): boolean {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false
    if (folder === '/') return true
  }
}

/** The command is a child of bubblewrap's first process inside, which is a child of bubblewrap itself. */
async function limitGrowth(pid: number, user: number | undefined, bytes: number): Promise<void> {
  const command = listDescendants(pid)[1]
  if (command === undefined) return
  // The command's own user may lower the limit even if root lacks the right to (CAP_SYS_RESOURCE).
  const asUser = user === undefined ? '' : `setpriv --reuid ${user} --regid ${user} --clear-groups`
  await runScript(`exec ${asUser} prlimit --pid ${command} --data=${dataBytes(command) + bytes}`)
}

/** The hard limit of open files for a process here: without privileges a limit can only be lowered. */
function readOpenFilesMax(): number {
  const [, hard = ''] = /^Max open files\s+\S+\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return hard === '' ? Number.POSITIVE_INFINITY : Number(hard)
}
