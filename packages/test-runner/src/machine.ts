import { execFileSync } from 'node:child_process'
import { release } from 'node:os'

/** What tests find on a machine and go by, each with how it tells its version. */
const PROGRAMS: readonly (readonly [string, ...string[]])[] = [
  ['bwrap', '--version'],
  ['pasta', '--version'],
  ['nft', '--version'],
  ['ip', '-V'],
  ['setpriv', '--version'],
  ['chromium', '--version'],
  ['nginx', '-v'],
  ['caddy', 'version'],
  ['aws', '--version'],
  ['rclone', 'version'],
  ['s3cmd', '--version'],
  ['restic', 'version'],
  ['zip', '-v'],
  ['python3', '-c', 'import boto3; print(boto3.__version__)'],
  ['radosgw', '--version'],
  ['redis-server', '--version'],
  ['postgres', '--version'],
  ['psql', '--version'],
]

function versionOf([program, ...args]: readonly [string, ...string[]]): string {
  try {
    return (
      execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
        .trim()
        .split('\n')[0] ?? ''
    )
  } catch {
    return 'missing'
  }
}

/**
 * All of a machine that decides what tests show besides the repository: Node, the kernel, whose rights they have, and the programs
 * and engines that they call, with their versions. A result is kept for one such description alone.
 */
export const describeMachine = (): string =>
  [
    `node ${process.version} ${process.platform} ${process.arch}`,
    `kernel ${release()}`,
    `root ${process.getuid?.() === 0}`,
    ...PROGRAMS.map((call) => `${call[0]}: ${versionOf(call)}`),
  ].join('\n')
