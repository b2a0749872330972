import { ConfigError, count, list, port, readConfig } from '@platform/runtime/config'
import { resolve } from 'node:path'
import { z } from 'zod'
import { StartProblem } from './start-problem.ts'

const schema = z.object({
  API_PORT: port.default(4000).describe('the port of the API, such as 4000 (0: any free one)'),
  IDP_PORT: port.default(4001).describe('the port of the identity provider, such as 4001 (0: any free one)'),
  EDGE_PORT: port.default(4002).describe('the port that deployments are served on, such as 4002 (0: any free one)'),
  CONSOLE_PORT: port.default(4003).describe('the port of the web console, such as 4003 (0: any free one)'),
  S3_PORT: port.default(4004).describe('the port that has S3 at its root, such as 4004 (0: any free one)'),
  DATA_DIR: z.string().default('.data').describe('the folder for everything that is kept, such as /var/lib/platform'),
  POSTGRES_PORT: port
    .default(0)
    .describe('the port of the embedded Postgres, such as 5433 (0 or left out: any free one)'),
  FUNCTION_SANDBOX: z
    .enum(['required', 'auto', 'none'])
    .default('auto')
    .describe('required, auto (plain processes where bubblewrap does not work) or none'),
  FUNCTION_EGRESS: z
    .enum(['public', 'none', 'host'])
    .optional()
    .describe('what Functions may reach: public, none or host; left out, public where this machine can close the rest'),
  FUNCTION_EGRESS_ALLOW: list.describe('private hosts that Functions may reach all the same, such as 10.1.2.3:5432'),
  BUILD_EGRESS: z
    .enum(['public', 'registry', 'none'])
    .optional()
    .describe(
      'what builds may reach: public, registry or none; left out, public where this machine can close the rest',
    ),
  BUILD_REGISTRIES: z
    .string()
    .optional()
    .describe('origins of package registries, with commas, such as https://npm.example.net'),
  FUNCTIONS_FOLDER: z
    .string()
    .regex(/^\/.{1,40}$/)
    .optional()
    .describe('an absolute folder of at most 41 characters for the files of Functions, such as /var/cache/fn'),
  FUNCTION_FIRST_BYTE_MS: count
    .optional()
    .describe('how many milliseconds a Function may take to begin its answer, such as 60000'),
  FUNCTION_SILENT_MS: count
    .optional()
    .describe('how many milliseconds an answer of a Function may be silent, such as 300000'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('trace, debug, info, warn, error, fatal or silent'),
})

/** The ports of the platform's listeners. */
export type Ports = { api: number; idp: number; edge: number; console: number; s3: number }

/** Ports as configured: 0 means any free port. */
export type LauncherConfig = {
  ports: Ports & { postgres: number }
  /** Absolute. */
  dataFolder: string
  logLevel: string
  functions: {
    sandbox: 'required' | 'auto' | 'none'
    /** undefined: as closed as possible on this machine. */
    egress: 'public' | 'none' | 'host' | undefined
    /** Absolute; undefined: one below the temporary folder. */
    folder: string | undefined
    /** Further variables of the API, if set. */
    variables: Record<string, string>
  }
  /** undefined: as open as possible while this machine can close the rest. */
  buildEgress: 'public' | 'registry' | 'none' | undefined
}

/**
 * Reads the launcher's configuration from the environment; nothing else reads it. A relative DATA_DIR counts from the
 * repository. Throws StartProblem, which says what to set instead.
 */
export function readLauncherConfig(env: Record<string, string | undefined>, repository: string): LauncherConfig {
  const variables = parse(env)
  const named = {
    API_PORT: variables.API_PORT,
    IDP_PORT: variables.IDP_PORT,
    EDGE_PORT: variables.EDGE_PORT,
    CONSOLE_PORT: variables.CONSOLE_PORT,
    S3_PORT: variables.S3_PORT,
    POSTGRES_PORT: variables.POSTGRES_PORT,
  }
  for (const [name, value] of Object.entries(named)) {
    const twin = Object.entries(named).find(([other, port]) => other !== name && port === value && port !== 0)
    if (twin) throw new StartProblem(`${name} and ${twin[0]} are both ${value}: give each its own port.`)
  }
  return {
    ports: {
      api: variables.API_PORT,
      idp: variables.IDP_PORT,
      edge: variables.EDGE_PORT,
      console: variables.CONSOLE_PORT,
      s3: variables.S3_PORT,
      postgres: variables.POSTGRES_PORT,
    },
    dataFolder: resolve(repository, variables.DATA_DIR),
    logLevel: variables.LOG_LEVEL,
    functions: {
      sandbox: variables.FUNCTION_SANDBOX,
      egress: variables.FUNCTION_EGRESS,
      folder: variables.FUNCTIONS_FOLDER,
      variables: Object.fromEntries(
        (
          ['FUNCTION_EGRESS_ALLOW', 'FUNCTION_FIRST_BYTE_MS', 'FUNCTION_SILENT_MS', 'BUILD_REGISTRIES'] as const
        ).flatMap((name) => (variables[name] === undefined ? [] : [[name, String(variables[name])]])),
      ),
    },
    buildEgress: variables.BUILD_EGRESS,
  }
}

function parse(env: Record<string, string | undefined>): z.output<typeof schema> {
  try {
    return readConfig(schema, env)
  } catch (error) {
    if (error instanceof ConfigError) throw new StartProblem(`${error.message}.`, { cause: error })
    throw error
  }
}
