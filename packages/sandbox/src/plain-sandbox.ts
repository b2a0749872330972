import { spawn } from 'node:child_process'
import { chmod, mkdir } from 'node:fs/promises'
import type { Journal } from './claim.ts'
import type { ControlGroups } from './control-groups.ts'
import { createStdio } from './inherited-descriptors.ts'
import { dataBytes, listProcessGroup } from './process-tree.ts'
import { createRunningCommands } from './running-commands.ts'
import { hasProgram, quote, runScript } from './run-program.ts'
import type { Sandbox, SandboxCapabilities, SandboxedCommand, SandboxedProcess } from './sandbox.ts'
import { END_FIRST, NICE, watchProcess } from './sandboxed-process.ts'

export interface PlainParts {
  capabilities: SandboxCapabilities
  groups: ControlGroups | undefined
  journal: Journal
  /** Receives problems that were recovered from. */
  onWarning: (message: string) => void
}

/** Runs commands as plain processes of this machine: no walls, only the limits that work without them. */
export function createPlainSandbox({ capabilities, groups, journal, onWarning }: PlainParts): Sandbox {
  const launch = async (command: SandboxedCommand): Promise<SandboxedProcess> => {
    const group = await groups?.create(command.name, command.limits, command.networkId)
    try {
      const script = [
        ...(group?.joinFiles ?? []).map((file) => `echo $$ > ${quote(file)}`),
        'ulimit -c 0',
        // If the machine's own limit is lower, it stays.
        `ulimit -n ${command.limits.openFiles} 2> /dev/null || true`,
        ...(group === undefined ? [END_FIRST, `exec nice -n ${NICE} "$@"`] : ['exec "$@"']),
      ].join('\n')
      const child = spawn('/bin/sh', ['-ec', script, 'sh', ...command.argv], {
        cwd: command.workingDirectory,
        env: command.env,
        detached: true,
        stdio: createStdio(),
      })
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve)
        child.once('error', reject)
      })
      const pid = child.pid ?? 0
      journal.add(command.name, pid)
      return watchProcess({
        name: command.name,
        child,
        group,
        limits: command.limits,
        listLeft: () => listProcessGroup(pid),
        limitGrowth: async (bytes) => {
          if (hasProgram('prlimit')) await runScript(`prlimit --pid ${pid} --data=${dataBytes(pid) + bytes}`)
        },
        onWarning,
        onGone: () => journal.remove(command.name),
      })
    } catch (error) {
      await group?.remove()
      throw error
    }
  }

  const commands = createRunningCommands(launch)
  return {
    capabilities,
    egress: 'host',
    pathOf: (mount) => mount.source,
    makeWritable: async (folder) => {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await chmod(folder, 0o700)
    },
    start: (command) => commands.start(command),
    close: async () => {
      await commands.close()
      await groups?.remove()
    },
  }
}
