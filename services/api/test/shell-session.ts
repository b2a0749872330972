import { spawn } from 'node:child_process'
import { once } from 'node:events'

// oxlint-disable-next-line node/no-process-env -- the programs of a reader need to be found
const { PATH = '' } = process.env

const PRELUDE = `
set -euo pipefail
trap : INT
curl() { command curl --show-error --fail-with-body "$@" || [ $? = 130 ]; }
refuse_undefined() { if declare -p | grep '="undefined"$' >&2; then return 1; fi; }
`

/** A terminal in which somebody runs commands: variables and functions last from one block to the next. */
export interface ShellSession {
  /**
   * Runs a block of commands and resolves to its standard output. until: Ctrl-C is pressed once this has been printed.
   *
   * Throws with all that was printed if a command fails, curl is answered with 4xx or 5xx, or a variable is `undefined`.
   */
  run(block: string, until?: RegExp): Promise<string>
  /** Ends it and whatever runs in it. Safe to repeat. */
  close(): Promise<void>
}

/** Starts bash in a folder, which also holds its temporary files, with nothing of this process's environment but PATH. */
export function openShellSession(folder: string): ShellSession {
  const shell = spawn('bash', ['--noprofile', '--norc'], {
    cwd: folder,
    env: { PATH, HOME: folder, TMPDIR: folder, LANG: 'C.UTF-8' },
    // A process group of its own, which gets the signals of a terminal.
    detached: true,
  })
  let stdout = ''
  let stderr = ''
  let isOpen = true
  const closed = once(shell, 'close').then(() => void (isOpen = false))
  shell.stdout.setEncoding('utf8').on('data', (text: string) => void (stdout += text))
  shell.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr += text))
  // A shell that has ended reads no more; run() says why it ended.
  shell.stdin.on('error', () => {})
  shell.stdin.write(PRELUDE)
  const signal = (name: NodeJS.Signals) => shell.pid !== undefined && isOpen && process.kill(-shell.pid, name)

  return {
    async run(block, until) {
      stdout = stderr = ''
      let isAwaited = until !== undefined
      shell.stdin.write(`${block}\nrefuse_undefined\nprintf '\\0'\n`)
      for (;;) {
        const end = stdout.indexOf('\0')
        if (end !== -1) return stdout.slice(0, end)
        if (!isOpen) throw new Error(`The shell ended in:\n${block}\n${stdout}\n${stderr}`)
        if (isAwaited && until?.test(stdout)) {
          isAwaited = false
          signal('SIGINT')
        }
        await Promise.race([once(shell.stdout, 'data'), closed])
      }
    },
    async close() {
      signal('SIGKILL')
      await closed
    },
  }
}
