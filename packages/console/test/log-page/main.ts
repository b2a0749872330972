// A page of nothing but a log, for log-view.chromium.test.ts. Its address says how it begins: ?lines=100000&live=true.
import { h, options, render } from 'preact'
import { ErrorBoundary } from 'preact-iso'
import { type LogLine, LogLines } from '../../src/log/lines.ts'
import { Row } from '../../src/log/line-row.tsx'
import { LogView } from '../../src/log/log-view.tsx'

const E = '\u001b'
const START = Date.UTC(2026, 0, 1)

/** Texts of the shapes that builds write; every 10,000th line is an error. */
function textOf(number: number): string {
  if (number % 10_000 === 0) return `Error: cannot resolve module ${number}`
  if (number % 10 === 1)
    return `${E}[32m✓${E}[39m ${E}[2msrc/pages/${number}.tsx${E}[22m ${E}[1m${number % 97} kB${E}[22m`
  if (number % 10 === 2)
    return `${E}[33mwarn${E}[39m ${E}]8;;https://example.com/${number}${E}\\rule ${number}${E}]8;;${E}\\ <b>`
  return `line ${number} transforms a module and writes what it became into a chunk`
}

const lineOf = (number: number): LogLine => ({
  id: `line-${String(number).padStart(9, '0')}`,
  at: new Date(START + number * 10).toISOString(),
  level: number % 10_000 === 0 ? 'ERROR' : number % 10 === 2 ? 'WARN' : 'INFO',
  text: textOf(number),
})

const parameters = new URLSearchParams(location.search)
const lines = new LogLines()
let count = 0

/** Appends lines whose texts are made up, or those given. */
function append(more: number | readonly string[]): void {
  const texts = typeof more === 'number' ? Array.from<undefined>({ length: more }) : more
  lines.append(
    texts.map((text) => {
      const line = lineOf(++count)
      return text === undefined ? line : { ...line, text }
    }),
  )
}

/** Raised as the first thing of each frame. */
let frame = 0
const countFrame = (): void => {
  frame++
  requestAnimationFrame(countFrame)
}
requestAnimationFrame(countFrame)

/** How often the log was rendered in each frame. */
const rendersByFrame = new Map<number, number>()
const diffed = options.diffed
options.diffed = (vnode) => {
  diffed?.(vnode)
  if ((vnode.type as unknown) === LogView) rendersByFrame.set(frame, (rendersByFrame.get(frame) ?? 0) + 1)
}

const violations: string[] = []
addEventListener('securitypolicyviolation', (event) => {
  violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`)
})

/** Appends as many lines a second as a stream would bring, in no rhythm with frames. */
async function stream(linesPerSecond: number, seconds: number): Promise<void> {
  const start = performance.now()
  for (let sent = 0; sent < linesPerSecond * seconds;) {
    await new Promise((resolve) => setTimeout(resolve, 3))
    const due = Math.min(seconds, (performance.now() - start) / 1_000) * linesPerSecond
    for (; sent < due; sent++) append(1)
  }
}

const show = (isLive: boolean): void =>
  render(
    h(
      ErrorBoundary,
      null,
      h(LogView, { lines, isLive, label: 'Build log', row: Row, isNumbered: true, fileName: 'build.log' }),
    ),
    document.getElementById('log') as HTMLElement,
  )

export interface LogPage {
  append: typeof append
  stream: typeof stream
  show: typeof show
  addGap: (count: number) => void
  rendersByFrame: Map<number, number>
  violations: string[]
}
Object.assign(window, {
  logPage: {
    append,
    stream,
    show,
    addGap: (count) => lines.addGap(count),
    rendersByFrame,
    violations,
  } satisfies LogPage,
})

append(Number(parameters.get('lines')))
show(parameters.get('live') === 'true')
