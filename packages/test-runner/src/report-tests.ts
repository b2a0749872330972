import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, SerializedError, TestCase, TestModule, TestSpecification, Vitest } from 'vitest/node'
import { countTests, type FileReport, type PackageReport, type TestReport } from './report.ts'
import { readTestRun } from './test-run.ts'
import './task-meta.ts'

/** How often a package says how far it is. */
const STEPS = 10

type Parent = TestCase['parent'] | undefined

function reasonOf(test: TestCase): string | undefined {
  const result = test.result()
  if (result.state === 'skipped' && result.note) return result.note
  for (let group: TestCase | Parent = test; group !== undefined; group = 'parent' in group ? group.parent : undefined) {
    const { reason } = group.meta()
    if (reason !== undefined) return reason
  }
  return undefined
}

function reportTest(test: TestCase): TestReport {
  const { state } = test.result()
  const reason = state === 'skipped' ? reasonOf(test) : undefined
  return {
    name: test.fullName,
    // A test without a result was in a run that ended before it.
    state: state === 'pending' ? 'failed' : state,
    durationMs: test.diagnostic()?.duration ?? 0,
    cpuMs: test.meta().cpuMs ?? 0,
    ...(reason !== undefined && { reason }),
  }
}

/** Of what a failed assertion compared. */
const DIFF_LINES_MAX = 40

/** The message with what was compared, where in the repository it comes from, and what caused it. */
export function messageOf({ message, stack, diff, cause }: SerializedError): string {
  const lines = stack?.split('\n').filter((line) => !line.includes('/node_modules/')) ?? [message]
  const compared = typeof diff === 'string' ? stripVTControlCharacters(diff).split('\n').slice(0, DIFF_LINES_MAX) : []
  const causes = cause === undefined ? [] : [`Caused by: ${messageOf(cause)}`]
  return [...lines.slice(0, 12), ...compared, ...causes].join('\n')
}

function reportFile(module: TestModule, root: string): FileReport {
  const tests = [...module.children.allTests()]
  const errors = tests.flatMap((test) =>
    (test.result().errors ?? []).map((error) => `${test.fullName}\n${messageOf(error)}`),
  )
  const groups = [...module.children.allSuites()].flatMap((suite) => suite.errors())
  const state = module.state()
  return {
    path: relative(root, module.moduleId),
    state: state === 'pending' || state === 'queued' ? 'failed' : state,
    errors: [...errors, ...[...module.errors(), ...groups].map((error) => messageOf(error))],
    tests: tests.map((test) => reportTest(test)),
  }
}

/** A vitest reporter: writes the report of a package's run, and under `npm test` says how far it is. */
export default class ReportTests implements Reporter {
  readonly #files: FileReport[] = []
  #root = process.cwd()
  #expected = 0
  readonly #run = readTestRun()

  onInit(vitest: Vitest): void {
    this.#root = vitest.config.root
  }

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    this.#files.length = 0
    this.#expected = specifications.length
  }

  onTestModuleEnd(module: TestModule): void {
    this.#files.push(reportFile(module, this.#root))
    const { length } = this.#files
    const step = Math.ceil(this.#expected / STEPS)
    if (!this.#run.isWhole || (length % step !== 0 && length !== this.#expected)) return
    const failed = countTests(this.#files, 'failed')
    const counts = `${countTests(this.#files, 'passed')} passed${failed > 0 ? `, ${failed} failed` : ''}`
    process.stdout.write(`${length} of ${this.#expected} files, ${counts}\n`)
  }

  onTestRunEnd(_: readonly TestModule[], errors: readonly SerializedError[]): void {
    const report: PackageReport = { files: this.#files, errors: errors.map((error) => messageOf(error)) }
    const path = resolve(this.#root, this.#run.reportFile)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, JSON.stringify(report))
  }
}
