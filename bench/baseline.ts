import { readFile, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import type { SuiteResult } from './run-suite.ts'

/** Ours in proportion to each peer, by suite and peer. */
const schema = z.record(
  z.string(),
  z.record(z.string(), z.strictObject({ cpu: z.number().positive().optional(), throughput: z.number().positive() })),
)
type Baseline = z.output<typeof schema>

const file = new URL('baseline.json', import.meta.url)
/** Ratios of a quiet and a busy hour differ by some 15 %; what is worse by this much is no noise. */
const MARGIN = 1.35

const readBaseline = async (): Promise<Baseline> => schema.parse(JSON.parse(await readFile(file, 'utf8')))

/** What has become worse than recorded, by more than the margin: one sentence each. What was never recorded is passed over. */
export async function findDrops(results: readonly SuiteResult[]): Promise<string[]> {
  const baseline = await readBaseline()
  return results.flatMap(({ name: suite, rows }) =>
    rows.slice(1).flatMap(({ name: peer, cpuRatio, throughputRatio }) => {
      const recorded = baseline[suite]?.[peer]
      if (!recorded) return []
      const drops: string[] = []
      if (recorded.cpu !== undefined && cpuRatio !== undefined && cpuRatio > recorded.cpu * MARGIN)
        drops.push(
          `${suite}: our CPU is ${cpuRatio.toFixed(2)} × that of ${peer}, recorded ${recorded.cpu.toFixed(2)} ×`,
        )
      if (throughputRatio < recorded.throughput / MARGIN)
        drops.push(
          `${suite}: our throughput is ${throughputRatio.toFixed(2)} × that of ${peer}, recorded ${recorded.throughput.toFixed(2)} ×`,
        )
      return drops
    }),
  )
}

/** Makes these results what later runs are compared with; suites that did not run keep theirs. */
export async function recordBaseline(results: readonly SuiteResult[]): Promise<void> {
  const rounded = (value: number) => Math.round(value * 100) / 100
  const fresh = Object.fromEntries(
    results.map(({ name, rows }) => [
      name,
      Object.fromEntries(
        rows.slice(1).map((row) => [
          row.name,
          {
            ...(row.cpuRatio !== undefined && { cpu: rounded(row.cpuRatio) }),
            throughput: rounded(row.throughputRatio),
          },
        ]),
      ),
    ]),
  )
  await writeFile(file, `${JSON.stringify({ ...(await readBaseline()), ...fresh }, null, 2)}\n`)
}
