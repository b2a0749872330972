import { randomBytes } from 'node:crypto'
import { callProgram } from '@platform/testkit/call-program'
import { runCommandLine } from '../src/commands/run.ts'
import { startTestIdp, type TestIdp } from './start.ts'

/** A running service, and its operator at the command line. */
export interface Operated {
  idp: TestIdp
  /** Runs a command in this process; a text is split at spaces. more: further variables. */
  run(
    words: string | readonly string[],
    more?: Record<string, string>,
  ): Promise<{ code: number; stdout: string; stderr: string }>
  /** The JSON that a command prints. Throws what it says on stderr if it fails. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  runJson(words: string | readonly string[], more?: Record<string, string>): Promise<any>
}

/** Starts the service, with a database whose operator has its variables. */
export async function startOperated(): Promise<Operated> {
  const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
  const idp = await startTestIdp({ MASTER_KEYS })
  const wordsOf = (words: string | readonly string[]) =>
    typeof words === 'string' ? words.split(' ').filter((word) => word !== '') : words
  const run: Operated['run'] = (words, more = {}) => {
    const env = { PUBLIC_URL: idp.url, DATABASE_URL: idp.databaseUrl, MASTER_KEYS, ...more }
    return callProgram(runCommandLine, { words: wordsOf(words), env })
  }
  return {
    idp,
    run,
    async runJson(words, more) {
      const { code, stdout, stderr } = await run([...wordsOf(words), '--json'], more)
      if (code !== 0) throw new Error(stderr)
      return JSON.parse(stdout) as unknown
    },
  }
}

/** That a command was refused with exit code 1 and one sentence. */
export const refused = (sentence: string): { code: number; stdout: string; stderr: string } => ({
  code: 1,
  stdout: '',
  stderr: `${sentence}\n`,
})
