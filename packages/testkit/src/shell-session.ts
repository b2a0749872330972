import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { env } from 'node:process'
import { stripVTControlCharacters } from 'node:util'

/** Shells that the guides are for, each as it is without a person's own settings. */
export const shells = ['bash', 'zsh'] as const
export type Shell = (typeof shells)[number]

const COMMANDS: Record<Shell, string> = { bash: 'bash --noprofile --norc -i', zsh: 'zsh -f -i' }

// The shell takes a paste as a whole: it is told where one begins and ends, and tells when it reads no more of it.
const paste = (text: string): string => `\u001B[200~${text.replaceAll('\n', '\r')}\u001B[201~\r`
const TAKEN = '\u001B[?2004l'
const READY = '\u001B[?2004h'
/** A prompt, with the status of the last command, or `more` where a command has not ended. */
const PROMPT = /⟦status (\d+|more)⟧/
/** Each command that fails, with its status. */
const FAILURE = /⟦failed (\d+)⟧/g

const CURL = `curl() {
  case " $*" in
    *' -f'*) command curl "$@" ;;
    *) command curl --show-error --fail-with-body "$@" ;;
  esac
}`
const REPORTS: Record<Shell, string> = {
  bash: `trap 'printf "⟦failed $?⟧" >&2' ERR; PS2='⟦status more⟧'; PS1='⟦status $?⟧'`,
  zsh: `setopt no_prompt_sp; TRAPZERR() { printf "⟦failed $?⟧" >&2 }; PS2='⟦status more⟧'; PS1='⟦status %?⟧'`,
}
const UNDEFINED = `! typeset -p | grep -E '="?undefined"?$'`

/** What a person does once something has been printed. */
interface Reaction {
  to: RegExp
  by: (printed: string) => unknown
}

/** An interactive shell in a terminal of its own (script of util-linux): variables and functions last from one block to the next. */
export interface ShellSession {
  /**
   * Pastes a block of commands and resolves to what is printed until the next prompt, stderr too.
   *
   * Throws with all of that if the shell does not understand it, a command fails, curl is answered with 4xx or 5xx, or a variable is
   * `undefined` afterwards.
   */
  paste: (block: string, reaction?: Reaction) => Promise<string>
  /** Presses Ctrl-C. */
  interrupt: () => void
  /** Ends it and whatever runs in it. Safe to repeat. */
  close: () => Promise<void>
}

/** Starts a shell in a folder, which is its home and holds its temporary files, with PATH and these variables alone. */
export async function openShellSession(
  shell: Shell,
  folder: string,
  variables: Record<string, string> = {},
): Promise<ShellSession> {
  // Wide enough that no line is broken.
  const command = `stty rows 200 cols 2000; exec ${COMMANDS[shell]}`
  const terminal = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    cwd: folder,
    env: { PATH: env['PATH'], HOME: folder, TMPDIR: folder, LANG: 'C.UTF-8', TERM: 'xterm', ...variables },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  let shown = ''
  let isOpen = true
  let isInterrupted = false
  const closed = once(terminal, 'close').then(() => void (isOpen = false))
  terminal.stdout.setEncoding('utf8').on('data', (text: string) => void (shown += text))
  // A shell that has ended reads no more; paste() says so.
  terminal.stdin.on('error', () => {})
  const change = () => Promise.race([once(terminal.stdout, 'data'), closed])

  const printed = () => {
    const [, output = ''] = shown.split(TAKEN, 2)
    const [text = ''] = output.split(PROMPT, 1)
    return stripVTControlCharacters(text).replaceAll('\r', '').replace(/^\n/, '')
  }

  async function send(block: string, reaction?: Reaction): Promise<string> {
    shown = ''
    isInterrupted = false
    let reacting: Promise<unknown> | undefined
    terminal.stdin.write(paste(block))
    for (;;) {
      const after = shown.split(TAKEN).slice(1).join('')
      const [, status] = (after.includes(READY) && PROMPT.exec(after)) || []
      const output = printed()
      if (!isOpen || status !== undefined) {
        await reacting
        const said = output.replaceAll(FAILURE, '')
        const failures = [...output.matchAll(FAILURE), ['', status]].map(([, code]) => code)
        const isUnderstood = !new RegExp(`^${shell}: `, 'm').test(said)
        const expected = isInterrupted ? ['0', '130'] : ['0']
        if (!isUnderstood || !failures.every((code) => code !== undefined && expected.includes(code)))
          throw new Error(`${shell} ended with ${failures.join(', ')} in:\n${block}\n${said}`)
        return said
      }
      if (reaction && !reacting && reaction.to.test(output)) {
        reacting = Promise.resolve(reaction.by(output))
        // A person who fails leaves the command waiting.
        reacting.catch(() => terminal.kill('SIGKILL'))
      }
      await change()
    }
  }

  // A shell takes no paste before its first prompt.
  while (!shown.includes(READY) && terminal.exitCode === null) await change()
  await send(`${REPORTS[shell]}\nset -uo pipefail\n${CURL}`)
  return {
    async paste(block, reaction) {
      const output = await send(block, reaction)
      await send(UNDEFINED)
      return output
    },
    interrupt() {
      isInterrupted = true
      terminal.stdin.write('\u0003')
    },
    async close() {
      // Its terminal hangs up, which ends all that runs there.
      terminal.kill('SIGKILL')
      await closed
    },
  }
}
