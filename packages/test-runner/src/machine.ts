import { execFileSync } from 'node:child_process'
import { release } from 'node:os'

/** What tests find on a machine and go by, each with how it tells its version. */
const PROGRAMS: readonly (readonly [string, ...string[]])[] = [
  ['bwrap', '--version'],
  ['pasta', '--version'],
  ['nft', '--version'],
  ['ip', '-V'],
  ['setpriv', '--version'],
  ['kubectl', 'version', '--client'],
  ['chromium', '--version'],
  ['nginx', '-v'],
  ['caddy', 'version'],
  ['aws', '--version'],
  ['rclone', 'version'],
  ['s3cmd', '--version'],
  ['restic', 'version'],
  ['zip', '-v'],
  ['curl', '--version'],
  ['zsh', '--version'],
  ['python3', '-c', 'import boto3; print(boto3.__version__)'],
  ['radosgw', '--version'],
]

/** The servers that a run is given, each with how its version is asked for. */
function engines(env: NodeJS.ProcessEnv): string[] {
  const { TEST_DATABASE_URL: databaseUrl, TEST_REDIS_URL: redisUrl } = env
  return [
    ...(databaseUrl ? [`postgres: ${versionOf(['psql', databaseUrl, '-Atc', 'show server_version'])}`] : []),
    ...(redisUrl
      ? [`redis: ${versionOf(['redis-cli', '-u', redisUrl, 'eval', 'return redis.REDIS_VERSION', '0'])}`]
      : []),
  ]
}

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
export const describeMachine = (env: NodeJS.ProcessEnv): string =>
  [
    `node ${process.version} ${process.platform} ${process.arch}`,
    `kernel ${release()}`,
    `root ${process.getuid?.() === 0}`,
    ...PROGRAMS.map((call) => `${call[0]}: ${versionOf(call)}`),
    ...engines(env),
  ].join('\n')
