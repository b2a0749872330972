import { execFileSync } from 'node:child_process'
import { hasProgram } from './run-program.ts'

// oxlint-disable-next-line node/no-process-env -- in CI the walls have to be there
const { CI = '' } = process.env
const isCi = !['', '0', 'false'].includes(CI)

/**
 * Why walls cannot be tested here; undefined if they can. Throws in CI.
 * programs: requirements of the test besides root on Linux.
 */
export function findTestObstacle(programs: string[]): string | undefined {
  const missing = programs.filter((program) => !hasProgram(program))
  let obstacle: string | undefined
  if (process.platform !== 'linux') obstacle = 'they are of Linux'
  else if (process.getuid?.() !== 0) obstacle = 'they need root'
  else if (missing.length > 0) obstacle = `not installed: ${missing.join(', ')}`
  else
    try {
      execFileSync('unshare', ['--net', '--mount', 'true'], { stdio: 'pipe' })
    } catch (error) {
      obstacle = `unshare failed: ${error instanceof Error ? error.message : 'unknown'}`
    }
  if (obstacle === undefined) return undefined
  if (isCi) throw new Error(`In CI the walls of the sandbox have to be there: ${obstacle}`)
  return `the walls of the sandbox: ${obstacle}`
}
