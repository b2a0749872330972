import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { pullVariables } from '@platform/sdk'
import type { Context, EnvironmentSlug } from '../context.ts'
import { CommandFailure, type Outcome } from '../outcome.ts'
import { reachPlace } from '../places.ts'

interface RunOptions {
  words: readonly string[]
  app?: string | undefined
  env?: EnvironmentSlug | undefined
}

/** Runs a command with the variables of an environment. Its exit code is the command's. */
export async function runWith(
  context: Context,
  { words: [command = '', ...args], app, env = 'preview' }: RunOptions,
): Promise<Outcome> {
  const { world, output } = context
  const { applicationId } = await reachPlace(context, { app })
  const { items, omittedSensitive } = await pullVariables(
    await context.platform(),
    { id: applicationId, environment: env },
    context.call,
  )
  const sensitive = omittedSensitive > 0 ? `, without ${omittedSensitive} sensitive ones` : ''
  output.note(`Running with ${items.length} variables of ${env}${sensitive}`)
  const child = spawn(command, args, {
    cwd: world.cwd,
    stdio: 'inherit',
    env: { ...world.env, ...Object.fromEntries(items.map(({ key, value }) => [key, value])) },
  })
  // A terminal sends Ctrl-C to the child as well. Any other signal reaches this process alone, so it is passed on.
  world.onSignal = (signal) => {
    if (signal !== 'SIGINT' || world.stdin.isTTY !== true) child.kill(signal)
  }
  try {
    const exitCode = await new Promise<number>((resolve, reject) => {
      child.on('error', (error: NodeJS.ErrnoException) =>
        reject(
          new CommandFailure(
            error.code === 'ENOENT' ? 'usage' : 'failed',
            `${command} cannot be run: ${error.code === 'ENOENT' ? 'there is no such program' : error.message}`,
          ),
        ),
      )
      child.on('close', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)))
    })
    return { data: null, exitCode }
  } finally {
    world.onSignal = undefined
  }
}
