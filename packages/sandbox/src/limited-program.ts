import { execFileSync, spawn } from 'node:child_process'
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { findOwnGroup, readGroupPaths } from './control-groups.ts'
import { quote } from './run-program.ts'

/** Folders of control groups in which a test can make one with a limit of memory. */
function findParent(): { folder: string; limit: string } | undefined {
  const unified = '/sys/fs/cgroup'
  const controllers = join(unified, 'cgroup.subtree_control')
  if (existsSync(controllers))
    return readFileSync(controllers, 'utf8').split(/\s/).includes('memory')
      ? { folder: unified, limit: 'memory.max' }
      : undefined
  const folder = findOwnGroup(readGroupPaths(), 'memory')
  return folder === undefined ? undefined : { folder, limit: 'memory.limit_in_bytes' }
}

/** Why no program can be limited as in a container; undefined if one can. Wants root. */
export function findLimitObstacle(): string | undefined {
  try {
    const parent = findParent()
    if (parent === undefined) return 'no control group counts memory'
    accessSync(parent.folder, constants.W_OK)
    return undefined
  } catch {
    return 'control groups cannot be written'
  }
}

let made = 0

/**
 * Runs a module as in a container: in a control group with a limit of memory, which it sees and cannot write to. Returns what it
 * prints. code: of the module; its first argument is the folder of the group.
 */
export async function runLimited(memoryBytes: number, code: string): Promise<string> {
  const parent = findParent()
  if (parent === undefined) throw new Error('No control group counts memory')
  const group = join(parent.folder, `limited-${process.pid}-${(made += 1)}`)
  mkdirSync(group)
  try {
    writeFileSync(join(group, parent.limit), String(memoryBytes))
    const mounts = [...readGroupPaths().mounts.matchAll(/^\S+ (\S+) cgroup2? /gm)].map(([, mount = '']) => mount)
    const script = [
      `echo $$ > ${quote(join(group, 'cgroup.procs'))}`,
      ...mounts.map((mount) => `mount -o remount,bind,ro ${quote(mount)}`),
      'exec "$@"',
    ].join('\n')
    const node = [process.execPath, '--input-type=module', '-e', code, group]
    const args = ['--mount', '--propagation', 'private', '/bin/sh', '-ec', script, 'sh', ...node]
    return await text(spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] }).stdout)
  } finally {
    // Its processes have ended, and the kernel may take a moment to see that.
    execFileSync('/bin/sh', ['-c', `while [ -s ${quote(join(group, 'cgroup.procs'))} ]; do sleep 0.05; done`])
    rmdirSync(group)
  }
}
