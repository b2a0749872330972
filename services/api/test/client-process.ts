import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { isCi, isDrill } from '@platform/testkit/test-environment'
import type { TestContext } from 'vitest'

const run = promisify(execFile)

// oxlint-disable-next-line node/no-process-env -- a client needs to be found
const { PATH = '', HOME = '' } = process.env
const OUTPUT_BYTES_MAX = 64 * 1_024 ** 2

/** A client of another make, as a process with this environment and no other. Rejects with what it wrote to stderr. */
export async function runClient(
  command: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<string> {
  const options = { env: { PATH, HOME, LANG: 'C.UTF-8', ...env }, maxBuffer: OUTPUT_BYTES_MAX }
  try {
    return (await run(command, args, options)).stdout
  } catch (error) {
    const { stderr = '', stdout = '' } = error as { stderr?: string; stdout?: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout.slice(-4_000)}\n${stderr.slice(-4_000)}`, { cause: error })
  }
}

/**
 * The first of the commands that answers to `args`. In a drill all that do, one of each version: a machine may have a current
 * one and its distribution's.
 */
export async function findClients(commands: readonly string[], args: readonly string[]): Promise<string[]> {
  const byVersion = new Map<string, string>()
  for (const command of commands) {
    const version = await runClient(command, args, {}).catch(() => undefined)
    if (version !== undefined && !byVersion.has(version)) byVersion.set(version, command)
    if (byVersion.size > 0 && !isDrill) break
  }
  return [...byVersion.values()]
}

/** Skips a test whose client is not installed, and says so; in CI it has to be. */
export function requireClientProgram(context: TestContext, name: string, rows: readonly string[]): void {
  if (rows.length > 0) return
  if (isCi) throw new Error(`${name} is not installed, and in CI it has to be`)
  context.skip(`${name} is not installed`)
}
