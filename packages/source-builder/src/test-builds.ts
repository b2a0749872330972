import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BuildEgress, BuildRequest, Builder } from './builder.ts'
import { type BuilderOptions, openBuilder } from './open-builder.ts'
import { type BuildPlan, planBuild } from './plan-build.ts'
import { removeFolder } from '@platform/sandbox/remove-folder'
import { type Files, treeOf, writeFiles } from './test-projects.ts'

const LIMITS = { memoryMb: 1_024, diskMb: 1_024, timeoutMs: 60_000 }
/** A variable in the environment of every process of a build. */
const MARKER = 'MARKER_OF_TEST'

/** The result of a build. */
interface Outcome {
  name: string
  plan: BuildPlan
  /** Holds `project`. */
  folder: string
  project: string
  /** Why it failed; undefined if it succeeded. */
  failure: string | undefined
  /** Its output, both streams in order of arrival. */
  output: string
  /** Log lines of the builder itself. */
  lines: string[]
  ms: number
}

interface BuildOptions extends Partial<Pick<BuildRequest, 'variables' | 'cache' | 'signal'>> {
  limits?: Partial<BuildRequest['limits']>
  onOutput?: (chunk: Buffer) => void
  /** Does not collect the output. */
  isLoud?: boolean
}

export interface TestBuilder extends AsyncDisposable {
  builder: Builder
  /** Holds the folders of all builds. */
  folder: string
  /** Problems of the builder itself. */
  warnings: unknown[]
  build(files: Files, options?: BuildOptions): Promise<Outcome>
}

let made = 0

/** Opens a builder in a temporary folder, which is removed with it. */
export function openTestBuilder(
  egress: BuildEgress,
  registries: readonly string[] = [],
  options: Pick<BuilderOptions, 'extraCertificates' | 'network' | 'machineAddresses'> = {},
): TestBuilder {
  const folder = mkdtempSync(join(tmpdir(), 'builder-'))
  const warnings: unknown[] = []
  const builder = openBuilder({
    folder: join(folder, 'own'),
    egress,
    registries: registries.map((url) => new URL(url)),
    ...options,
    onWarning: (...warning) => void warnings.push(warning),
  })
  return {
    builder,
    folder,
    warnings,
    async build(files, { limits, variables = {}, cache, signal, onOutput, isLoud = false } = {}) {
      const name = `test-${(made += 1)}`
      const own = join(folder, name, 'build')
      writeFiles(join(own, 'project'), files)
      const plan = await planBuild(treeOf(files), '', { canFetch: egress !== 'none' })
      const outcome = { name, plan, folder: own, project: join(own, 'project'), output: '', lines: [] as string[] }
      const startedAt = performance.now()
      let failure: string | undefined
      try {
        await builder.build({
          name,
          folder: own,
          plan,
          variables: { [MARKER]: markerOf(name), ...variables },
          limits: { ...LIMITS, ...limits },
          cache,
          log: {
            line: (type, text) => void outcome.lines.push(`${type} ${text}`),
            output: (_, chunk) => {
              if (!isLoud) outcome.output += chunk.toString()
              onOutput?.(chunk)
            },
          },
          signal: signal ?? new AbortController().signal,
        })
      } catch (error) {
        // Any other error is not a build's failure.
        if (!(error instanceof Error) || error.name !== 'BuildFailure') throw error
        failure = error.message
      }
      return { ...outcome, failure, ms: performance.now() - startedAt }
    },
    async [Symbol.asyncDispose]() {
      await builder.close()
      await removeFolder(folder)
    },
  }
}

const markerOf = (name: string): string => `${process.pid}-${name}-`

/** Remaining processes of one build of this test, or of all. */
export const listLeft = (name?: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(
        `${MARKER}=${name === undefined ? `${process.pid}-` : markerOf(name)}`,
      )
    } catch {
      // It has ended meanwhile.
      return false
    }
  })
