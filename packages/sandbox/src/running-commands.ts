import type { SandboxedCommand, SandboxedProcess } from './sandbox.ts'

/** Running commands of one sandbox: their names are unique, and none starts once it is closed. */
export interface RunningCommands {
  /** Throws if a command of this name runs, or the sandbox is closed. */
  start(command: SandboxedCommand): Promise<SandboxedProcess>
  /** Kills all commands, refuses new ones, and resolves when nothing of them is left. */
  close(): Promise<void>
}

/** Tracks running commands. launch: starts the process of a command whose name is free. */
export function createRunningCommands(
  launch: (command: SandboxedCommand) => Promise<SandboxedProcess>,
): RunningCommands {
  const running = new Map<string, Promise<SandboxedProcess>>()
  let isClosed = false
  return {
    start: async (command) => {
      if (isClosed) throw new Error('The sandbox is closed')
      if (!/^[a-z0-9-]{1,60}$/.test(command.name)) throw new Error(`${command.name} is no name of a command`)
      if (running.has(command.name)) throw new Error(`A command named ${command.name} runs already`)
      const starting = launch(command)
      running.set(command.name, starting)
      try {
        const started = await starting
        void started.exited.then(() => running.delete(command.name))
        return started
      } catch (error) {
        running.delete(command.name)
        throw error
      }
    },
    close: async () => {
      isClosed = true
      for (const result of await Promise.allSettled(running.values()))
        if (result.status === 'fulfilled') {
          result.value.kill()
          await result.value.exited
        }
    },
  }
}
