import { execFile } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import { type Terminal, signedInTerminal } from '../../cli/test/terminal.ts'

/** What a line did. */
interface LineEnd {
  code: number
  stdout: string
  stderr: string
}

/** Somebody at a terminal, who types what the drawer says. */
export interface Typist {
  terminal: Terminal
  /** value: of `$VALUE`. cwd: below the home. */
  type(line: string, options?: { value?: string; cwd?: string }): Promise<LineEnd>
}

/** The words go through a real shell, and then through the command line's own program, in this process. */
export async function newTypist(platform: TestPlatform, person: Person): Promise<Typist> {
  const terminal = await signedInTerminal(platform, person)
  const token = await person.token(everyScope)
  const [words, stdin] = [join(terminal.home, 'words'), join(terminal.home, 'stdin')]
  const platformCommand = `platform() { printf '%s\\0' "$@" >'${words}'; cat >'${stdin}'; }\n`
  return {
    terminal,
    async type(line, { value, cwd = terminal.home } = {}) {
      const shell = promisify(execFile)('sh', ['-c', platformCommand + line], {
        cwd,
        env: { ...terminal.env, PLATFORM_TOKEN: token, ...(value !== undefined && { VALUE: value }) },
      })
      shell.child.stdin?.end()
      const ended = await shell.then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        (error: LineEnd) => error,
      )
      if (ended.code !== 0 || line.startsWith('curl ')) return ended
      const argv = (await readFile(words, 'utf8')).split('\0').slice(0, -1)
      const given = await readFile(stdin)
      await Promise.all([rm(words), rm(stdin)])
      return terminal.run(argv, { cwd, stdin: given })
    },
  }
}

const drawer = (page: Page) => page.getByRole('region', { name: 'As a command' })

/** What the drawer says, of which `What this page shows` is one and `What was done last` another. Opens it. */
export async function linesOf(page: Page): Promise<{ shown?: string; done?: string }> {
  if ((await drawer(page).count()) === 0) await page.getByRole('button', { name: 'As a command' }).click()
  const headings = await drawer(page).getByRole('heading', { level: 3 }).allInnerTexts()
  const lines = await drawer(page)
    .getByRole('code')
    .filter({ hasNotText: /^\$\w+$/ })
    .allInnerTexts()
  const said = new Map(headings.map((heading, index) => [heading, lines[index]]))
  const [shown, done] = [said.get('What this page shows'), said.get('What was done last')]
  return { ...(shown !== undefined && { shown }), ...(done !== undefined && { done }) }
}
