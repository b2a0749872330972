import type { Answer, RouteRequest } from './answer.ts'
import type { OutputManifest, Route } from './manifest.ts'
import { compileOutput } from './router.ts'

/** Summarizes an answer for test tables: its kind, path, status, and target. */
export function shortAnswer(answer: Answer): string {
  switch (answer.kind) {
    case 'asset':
      return `${answer.status} ${answer.path}`
    case 'redirect':
      return `${answer.status} → ${answer.location}`
    case 'status':
      return String(answer.status)
    case 'external':
      return `external ${answer.url}`
    case 'function':
      return `ƒ ${answer.path} ${answer.url}${answer.status === undefined ? '' : ` ${answer.status}`}`
    case 'prerender':
      return `kept ${answer.path} ${answer.sharedPath}?${answer.sharedQuery} [${answer.sharedMatches}]${answer.isBypassed ? ' bypassed' : ''}`
    case 'middleware':
      return `middleware ${answer.path} ${answer.url}`
    case 'answered':
      return `answered ${answer.status}`
    case 'not-found':
      return `404 ${answer.path ?? '-'}${answer.isHashed ? ' hashed' : ''}`
  }
}

/** Makes a Build Output of these routes, files and Functions, to be queried by URL. For tests. */
export function buildOutputOf(
  routes: Route[],
  files: string[] = [],
  functions: string[] = [],
  more?: Partial<OutputManifest>,
) {
  const router = compileOutput({
    version: 1,
    kind: 'build-output',
    routes,
    wildcard: [],
    site: null,
    functions: Object.fromEntries(functions.map((path) => [path, { function: path }])),
    ...more,
  })
  const existing = new Set(files)
  return (url: string, request: Partial<RouteRequest> = {}): Answer => {
    const [path = '', query = ''] = url.split(/\?(.*)/s)
    const whole = {
      method: 'GET',
      path,
      query,
      host: 'a.example:8080',
      headers: {},
      protocol: 'http',
      ...request,
    } as const
    return router.route(whole, (name) => existing.has(name))
  }
}
