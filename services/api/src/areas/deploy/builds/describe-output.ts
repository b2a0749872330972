import type { Output } from '@platform/build-output/read-output'
import { findCodeOfSource } from '@platform/build-output/withheld-files'
import type { BuildPlan } from '@platform/source-builder/plan-build'
import type { BuildLog } from './build-log.ts'
import type { Run } from './run.ts'
import type { Unpacked } from './unpack-archive.ts'

/** A number and what it counts, for sentences. */
export const countOf = (n: number, one: string): string => `${n} ${one}${n === 1 ? '' : 's'}`

/** Says in the log what was found to be deployed, and what of it was left out. */
export function describeOutput(log: BuildLog, { manifest, assets, functions, notes, warnings }: Output): void {
  const files = countOf(assets.length, 'asset')
  const crons = manifest.crons ? `, ${countOf(manifest.crons.length, 'cron')}` : ''
  const descriptions = {
    static: `plain files: ${files}`,
    'build-output': `Build Output: ${files}, ${countOf(functions.length, 'Function')}, ${countOf(manifest.routes.length, 'route')}${crons}`,
    worker: `a worker in front of plain files: ${files}`,
    server: `a Node server: ${functions[0]?.command ?? functions[0]?.handler}`,
  }
  log.line('INFO', `Found ${descriptions[manifest.kind]}`)
  for (const note of notes) log.line('INFO', note)
  for (const warning of warnings) log.line('WARN', warning)
}

/**
 * Says in the log which code beside a built site, or of a server, runs on other hosts and not here. A server, and Next.js, load
 * middleware themselves.
 */
export function warnOfCode(
  { log }: Run,
  { files }: Unpacked,
  root: string,
  { manifest: { kind }, warnings }: Output,
  plan: BuildPlan | undefined,
): void {
  if (plan === undefined && kind !== 'server') return
  const below = root === '' ? '' : `${root}/`
  const paths = files.keys().flatMap((path) => (path.startsWith(below) ? [path.slice(below.length)] : []))
  const hasOwnMiddleware = kind === 'server' || plan?.usesNext === true
  for (const warning of findCodeOfSource(paths, { hasOwnMiddleware }))
    if (!warnings.includes(warning)) log.line('WARN', warning)
}
