import { parseArgs } from 'node:util'
import { type LauncherConfig, type Ports, readLauncherConfig } from './config.ts'
import { holdDataFolder } from './data-folder.ts'
import { endLeftoverServices } from './leftover-services.ts'
import { claimPort } from './ports.ts'
import { StartProblem } from './start-problem.ts'

type Prepared = Omit<LauncherConfig, 'ports'> & {
  /** True if a program wants to read where everything is. */
  isForPrograms: boolean
  /** Free ones. */
  ports: Ports
  /** 0: any free one. */
  postgresPort: number
}

/**
 * Everything up to the first process: reads what was asked for, locks the data folder for this process, ends what a launcher
 * that was killed left behind, and finds free ports.
 *
 * words: `argv` after the program; onHeld: called once the data folder is locked. Throws StartProblem.
 */
export async function prepareStart(
  words: readonly string[],
  env: Record<string, string | undefined>,
  repository: string,
  onHeld: (dataFolder: string) => void = () => {},
): Promise<Prepared> {
  const isForPrograms = readArguments(words)
  const { ports: wanted, ...config } = readLauncherConfig(env, repository)
  holdDataFolder(config.dataFolder)
  onHeld(config.dataFolder)
  endLeftoverServices(config.dataFolder)
  const ports = {
    api: await claimPort('API_PORT', wanted.api),
    idp: await claimPort('IDP_PORT', wanted.idp),
    edge: await claimPort('EDGE_PORT', wanted.edge),
    console: await claimPort('CONSOLE_PORT', wanted.console),
    s3: await claimPort('S3_PORT', wanted.s3),
  }
  return { ...config, isForPrograms, ports, postgresPort: wanted.postgres }
}

function readArguments(words: readonly string[]): boolean {
  try {
    return parseArgs({ args: [...words], options: { json: { type: 'boolean' } } }).values.json ?? false
  } catch (error) {
    throw new StartProblem(`${(error as Error).message}. The only option is --json: npm start --silent -- --json`)
  }
}
