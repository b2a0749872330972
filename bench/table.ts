import type { Row, SuiteResult } from './run-suite.ts'

/** Beyond this share of its core the load maker may be what was measured. */
const LOAD_MAKER_BUSY_MAX = 0.9

/** Where half a millisecond counts it is shown. */
const shownMs = (value: number | undefined): string => shown(value, value !== undefined && value < 20 ? 1 : 0)
const shown = (value: number | undefined, digits: number): string => (value === undefined ? '–' : value.toFixed(digits))

/** What the design promises for this comparison, and whether this run kept it. */
function verdict({ cpuRatio, throughputRatio, p50Ratio, p99Ratio, p50Ms, aim }: Row): string {
  const parts: string[] = []
  if (aim.cpuRatioMax !== undefined && cpuRatio !== undefined)
    parts.push(`${cpuRatio <= aim.cpuRatioMax ? 'met' : 'missed'}: CPU ≤ ${Number(aim.cpuRatioMax.toFixed(2))} ×`)
  if (aim.throughputRatioMin !== undefined)
    parts.push(
      `${throughputRatio >= aim.throughputRatioMin ? 'met' : 'missed'}: throughput ≥ ${Number(aim.throughputRatioMin.toFixed(2))} ×`,
    )
  if (aim.p50RatioMax !== undefined && p50Ratio !== undefined)
    parts.push(
      `${p50Ratio <= aim.p50RatioMax ? 'met' : 'missed'}: p50 ≤ ${aim.p50RatioMax} × (${p50Ratio.toFixed(2)} ×)`,
    )
  if (aim.p99RatioMax !== undefined && p99Ratio !== undefined)
    parts.push(
      `${p99Ratio <= aim.p99RatioMax ? 'met' : 'missed'}: p99 ≤ ${aim.p99RatioMax} × (${p99Ratio.toFixed(2)} ×)`,
    )
  if (aim.p50MsMax !== undefined && p50Ms !== undefined)
    parts.push(`${p50Ms <= aim.p50MsMax ? 'met' : 'missed'}: p50 ≤ ${aim.p50MsMax} ms`)
  return parts.join(', ')
}

/** The figures of a suite for a person, as a Markdown table. */
export function formatTable({ name, work, rounds, seconds, connections, unit, rows }: SuiteResult): string {
  const head = [
    '',
    `${unit}/s`,
    'CPU µs',
    'Postgres µs',
    'Redis µs',
    'p50 ms',
    'p99 ms',
    'RSS MB',
    'our CPU',
    'our throughput',
    'aim',
  ]
  const body = rows.map((row, i) => [
    row.name,
    shown(row.requestsPerSecond, 0),
    shown(row.cpuMicroseconds, 1),
    shown(row.postgresMicroseconds, 1),
    shown(row.redisMicroseconds, 1),
    shownMs(row.p50Ms),
    shownMs(row.p99Ms),
    shown(row.memoryMb, 0),
    i === 0 ? '' : `${shown(row.cpuRatio, 2)} ×`,
    i === 0 ? '' : `${shown(row.throughputRatio, 2)} ×`,
    verdict(row),
  ])
  const widths = head.map((title, column) =>
    Math.max(...[head, ...body].map((cells) => (cells[column] ?? title).length)),
  )
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => (column === 0 || column === cells.length - 1 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  const busy = rows.filter(({ loadMakerBusy = 0 }) => loadMakerBusy > LOAD_MAKER_BUSY_MAX).map((row) => row.name)
  return [
    `${name}: ${work}`,
    `${rounds} rounds of ${seconds} s${connections === undefined ? '' : `, ${connections} connections`}`,
    '',
    line(head),
    rule,
    ...body.map(line),
    ...(busy.length > 0 ? ['', `The load maker was the bottleneck against: ${busy.join(', ')}`] : []),
    ...rows
      .filter(({ facts }) => Object.keys(facts).length > 0)
      .map(({ name: row, facts }) => {
        const all = Object.entries(facts).map(([fact, value]) => `${fact} ${shown(value, value < 100 ? 1 : 0)}`)
        return `\n${row}: ${all.join(', ')}`
      }),
    '',
  ].join('\n')
}
