import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { z } from 'zod'

/** What is looked at of the file; the API checks all of it. */
const providerFile = z.object({ providers: z.array(z.object({ keyEnv: z.string().optional() })) })

function readKeyNames(path: string): string[] {
  try {
    const { providers } = providerFile.parse(JSON.parse(readFileSync(path, 'utf8')))
    return providers.flatMap(({ keyEnv }) => keyEnv ?? [])
  } catch {
    // The API says what is wrong with it, and ends.
    return []
  }
}

/**
 * The variables by which the API finds AI providers: AI_PROVIDERS, whose file counts from the repository, and the keys that the file
 * names. None where AI_PROVIDERS is not given.
 */
export function readAiVariables(env: Record<string, string | undefined>, repository: string): Record<string, string> {
  const { AI_PROVIDERS: configuredPath } = env
  if (configuredPath === undefined || configuredPath === '') return {}
  const path = resolve(repository, configuredPath)
  const keys = readKeyNames(path).flatMap((name): [string, string][] => {
    const key = env[name]
    return key === undefined ? [] : [[name, key]]
  })
  return { AI_PROVIDERS: path, ...Object.fromEntries(keys) }
}
