import { NODE } from '@platform/sandbox/test-network'
import { openTestBuilder } from './test-builds.ts'
import { shellProject } from './test-projects.ts'

/**
 * The machine of the test: a separate program that builds what messages request, within its network namespace. Its argument names
 * the carrier of the builds' network.
 */
export type Request =
  /** code: the build's command, run in Node. */
  { kind: 'build'; code: string } | { kind: 'close' }

const network = process.argv[2] === 'veth' ? 'veth' : 'pasta'
const tested = openTestBuilder('public', [], { network, machineAddresses: [NODE] })
async function answer(request: Request): Promise<unknown> {
  if (request.kind === 'close') return tested[Symbol.asyncDispose]()
  const { output, failure } = await tested.build(shellProject('node build.cjs', { 'build.cjs': request.code }))
  return { output, failure }
}

process.on('message', (request: Request) => {
  answer(request).then(
    (value) => process.send?.({ value: value ?? null }),
    (error: unknown) => process.send?.({ error: error instanceof Error ? (error.stack ?? error.message) : 'unknown' }),
  )
})
process.send?.({ value: 'ready' })
