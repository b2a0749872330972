import { readFileSync } from 'node:fs'
import { Gauge } from 'prom-client'

/** The version that a process runs. */
export interface BuildInfo {
  service: string
  /** The source commit: the one the image was built with, or that of the checkout; `unknown` without either. */
  commit: string
  /** The version of Node. */
  node: string
}

const gitFolder = new URL('../../../.git/', import.meta.url)
const readGit = (path: string): string => readFileSync(new URL(path, gitFolder), 'utf8').trim()

/** Returns the checkout's commit; undefined outside of one. */
function commitOfCheckout(): string | undefined {
  try {
    const head = readGit('HEAD')
    const [, ref] = /^ref: (.+)$/.exec(head) ?? []
    if (ref === undefined) return head
    try {
      return readGit(ref)
    } catch {
      return readGit('packed-refs')
        .split('\n')
        .find((line) => line.endsWith(` ${ref}`))
        ?.split(' ', 1)[0]
    }
  } catch {
    return undefined
  }
}

const gauge = new Gauge({
  name: 'build_info',
  help: 'Always 1: its labels say what the process runs.',
  labelNames: ['service', 'commit', 'node'],
})

/** Reports the version that the process runs, also in the metric build_info. commit: the value of BUILD_COMMIT. */
export function readBuildInfo(service: string, commit: string | undefined): BuildInfo {
  const info = { service, commit: commit ?? commitOfCheckout() ?? 'unknown', node: process.versions.node }
  gauge.set(info, 1)
  return info
}
