import { setImmediate } from 'node:timers/promises'
import { getTransformedRoutes, normalizeRoutes } from '@vercel/routing-utils'
import { UnusableOutput } from './output.ts'

type Config = Parameters<typeof getTransformedRoutes>[0]
type Transformed = ReturnType<typeof normalizeRoutes>

/** The longest that other work waits for rules; the dearest rule takes some 100 ms. */
const TURN_MS = 10

/** The members of vercel.json that become routes, validated. */
export interface RoutingMembers extends Pick<Config, 'cleanUrls' | 'trailingSlash'> {
  redirects: readonly object[]
  headers: readonly object[]
  rewrites: readonly object[]
  routes: readonly object[]
}

/** Their routes, one for each rule. */
export type RoutesOfMembers = Record<'spelling' | 'redirects' | 'headers' | 'rewrites' | 'routes', object[]>

/**
 * Turns members of vercel.json into routes by `@vercel/routing-utils`, and lets other work run in between: 8 MB of rules keep it busy for
 * seconds.
 *
 * name: of the file. Throws UnusableOutput with a sentence that names the rule that cannot be read.
 */
export async function transformVercel(
  { cleanUrls, trailingSlash, redirects, headers, rewrites, routes }: RoutingMembers,
  name: string,
): Promise<RoutesOfMembers> {
  let turnEndsAt = performance.now() + TURN_MS
  const transform = async (member: 'redirects' | 'headers' | 'rewrites', rules: readonly object[]) => {
    const made: object[] = []
    for (const [index, rule] of rules.entries()) {
      // The library's types and the schema say the same in other words.
      const config = { [member]: [structuredClone(rule)] } as Config
      const where = `${name}: ${member}[${index}]`
      // Of rewrites, without the `handle` in front of them.
      made.push(...routesOf(() => getTransformedRoutes(config), where).slice(-1))
      if (performance.now() > turnEndsAt) {
        await setImmediate()
        turnEndsAt = performance.now() + TURN_MS
      }
    }
    return made
  }
  const spelling = {
    ...(cleanUrls !== undefined && { cleanUrls }),
    ...(trailingSlash !== undefined && { trailingSlash }),
  }
  return {
    spelling: routesOf(() => getTransformedRoutes(spelling), name),
    redirects: await transform('redirects', redirects),
    headers: await transform('headers', headers),
    rewrites: await transform('rewrites', rewrites),
    routes: routesOf(() => normalizeRoutes(routes as Parameters<typeof normalizeRoutes>[0]), name),
  }
}

/** Calls the library. where: what it is called for. Throws UnusableOutput in place of its errors. */
function routesOf(call: () => Transformed, where: string): object[] {
  let made: Transformed
  try {
    made = quietly(call)
  } catch (error) {
    throw new UnusableOutput(`${where} has a source, a destination or a header that cannot be read.`, { cause: error })
  }
  if (made.error === null) return made.routes ?? []
  const message = made.error.message.replace(/^\w+ at index 0 /, '').slice(0, 300)
  throw new UnusableOutput(`${where}${message.startsWith('Route ') ? ':' : ''} ${message.replace(/\.?$/, '.')}`)
}

/** Calls the library without the lines about patterns that it writes to the console. Nothing else runs meanwhile. */
function quietly<T>(call: () => T): T {
  const write = console.error
  console.error = () => {}
  try {
    return call()
  } finally {
    console.error = write
  }
}
