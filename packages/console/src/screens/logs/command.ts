import type { TerminalLine } from '../../command/terminal.ts'

interface Shown {
  applicationId: string
  /** organization/application, by their slugs. */
  app: string
  /** The filters that are set, by their names in the API. */
  values: Readonly<Record<string, string>>
}

/** Options of `platform logs`, by the filters that they stand for. */
const OPTIONS = { level: '--level', search: '--search', requestId: '--request', from: '--since' } as const

/** How a terminal reads the same requests. */
export function requestsLine({ applicationId, app, values }: Shown): TerminalLine {
  const { from, ...others } = values
  if (Object.keys(others).length === 0)
    return { words: ['logs', '--requests', '--app', app, ...(from === undefined ? [] : ['--since', from])] }
  return { method: 'GET', path: `/applications/${applicationId}/requests?${new URLSearchParams(values).toString()}` }
}

/** How a terminal reads the same lines. */
export function linesLine({ applicationId, app, values }: Shown): TerminalLine {
  const { deploymentId, ...others } = values
  if (Object.keys(others).every((name) => name in OPTIONS)) {
    const options = Object.entries(OPTIONS).flatMap(([name, option]) => {
      const value = others[name]
      return value === undefined ? [] : [`${option}=${value}`]
    })
    // An id of a deployment takes the application's place.
    return { words: ['logs', ...(deploymentId === undefined ? ['--app', app] : [deploymentId]), ...options] }
  }
  const of = deploymentId === undefined ? `/applications/${applicationId}` : `/deployments/${deploymentId}`
  return { method: 'GET', path: `${of}/runtime-logs?${new URLSearchParams(others).toString()}` }
}

export const requestLine = (applicationId: string, requestId: string): TerminalLine => ({
  method: 'GET',
  path: `/applications/${applicationId}/requests/${requestId}`,
})
