import { execFile } from 'node:child_process'
import { env } from 'node:process'
import { promisify } from 'node:util'

/** Tools report to nobody and look for no newer version of themselves. */
const QUIET = {
  ASTRO_TELEMETRY_DISABLED: '1',
  NEXT_TELEMETRY_DISABLED: '1',
  NG_CLI_ANALYTICS: 'false',
  NUXT_TELEMETRY_DISABLED: '1',
  TANSTACK_CLI_TELEMETRY_DISABLED: '1',
  VERCEL_TELEMETRY_DISABLED: '1',
  NO_UPDATE_NOTIFIER: '1',
  CI: '1',
}

/**
 * Runs a tool of frameworks in a folder, where nobody answers its questions.
 *
 * more: environment variables. Throws with all that it printed if it fails.
 */
export async function runTool(
  folder: string,
  command: string,
  args: readonly string[],
  more: Record<string, string> = {},
): Promise<void> {
  // What the tests run with is not for the tools: NODE_ENV=test makes other builds.
  const { NODE_ENV: _, VITEST: __, NODE_OPTIONS: ___, ...inherited } = env
  const running = promisify(execFile)(command, args, {
    cwd: folder,
    env: { ...inherited, ...QUIET, ...more },
    maxBuffer: 64_000_000,
  })
  running.child.stdin?.end()
  try {
    await running
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed in ${folder}:\n${stdout}\n${stderr}`, { cause: error })
  }
}

/** Where npm finds packages on this machine. */
export async function registryUrl(): Promise<string> {
  const { stdout } = await promisify(execFile)('npm', ['config', 'get', 'registry'])
  return stdout.trim()
}
