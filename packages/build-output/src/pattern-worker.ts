import { parentPort } from 'node:worker_threads'
import { checkSync, type Diagnostics } from 'recheck'
import type { PatternVerdict } from './check-pattern.ts'

const DEGREE_MAX = 2

function judge(diagnostics: Diagnostics): PatternVerdict {
  if (diagnostics.status === 'safe') return { kind: 'safe' }
  if (diagnostics.status === 'unknown')
    return { kind: 'unknown', reason: `its check ended with ${diagnostics.error.kind}` }
  const { complexity } = diagnostics
  if (complexity.type === 'polynomial' && complexity.degree <= DEGREE_MAX) return { kind: 'safe' }
  return { kind: 'slow', complexity: complexity.summary }
}

parentPort?.on('message', ({ source, flags }: { source: string; flags: string }) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(judge(checkSync(source, flags)))
})
