import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { z } from 'zod'

/** The part of the file that is read here; the API validates all of it. */
const providerFile = z.object({ providers: z.array(z.object({ keyEnv: z.string().optional() })) })

function readKeyNames(path: string): string[] {
  try {
    const { providers } = providerFile.parse(JSON.parse(readFileSync(path, 'utf8')))
    return providers.flatMap(({ keyEnv }) => keyEnv ?? [])
  } catch {
    // The API reports what is wrong with the file, and exits.
    return []
  }
}

/**
 * The environment variables of AI providers for the API: AI_PROVIDERS, whose path is relative to the repository, and the keys
 * that this file names. Empty if AI_PROVIDERS is not set.
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
