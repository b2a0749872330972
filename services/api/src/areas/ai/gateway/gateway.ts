import type { Logger } from '@platform/runtime/logger'
import { openPrices, type Prices } from '../governance/prices.ts'
import { createRunningCalls, type RunningCalls } from './running-calls.ts'
import { type ByteBudget, createByteBudget } from './requests/byte-budget.ts'
import { type Catalog, createCatalog } from './providers/catalog.ts'
import { type Circuits, createCircuits } from './providers/circuits.ts'
import { type ProviderFile, readProviderFile } from './providers/provider-file.ts'
import { aiTimings, type AiTimings } from './providers/timings.ts'
import { openUpstreamClient, type UpstreamClient } from './providers/upstream-client.ts'

const BODIES_BYTES_MAX = 256 * 1_048_576
const BODIES_BYTES_OF_CALLER_MAX = 128 * 1_048_576

/** Older prices cause a warning at startup. */
const PRICES_DAYS_MAX = 90

/** The AI gateway of a process: its catalog, and its connections to providers. */
export interface AiGateway {
  readonly catalog: Catalog
  readonly prices: Prices
  readonly timings: AiTimings
  readonly client: UpstreamClient
  readonly circuits: Circuits
  readonly bodies: ByteBudget
  /** Routes whose model turned out to have no /responses, by `routeName`. */
  readonly lacksResponses: Set<string>
  readonly calls: RunningCalls
  /** Reloads the operator's file; an invalid file changes nothing and is logged. */
  reload(): Promise<void>
  close(): Promise<void>
}

export interface GatewayOptions {
  /** The operator's file of providers and models; undefined: local models only. */
  path: string | undefined
  /** Reads an environment variable that the file names. */
  readVariable: (name: string) => string | undefined
  logger: Logger
  now: () => Date
  timings?: Partial<AiTimings> | undefined
}

/** Throws WrongProviderFile if the file is invalid. */
export async function openAiGateway({ path, readVariable, logger, now, timings }: GatewayOptions): Promise<AiGateway> {
  async function read(): Promise<Catalog> {
    const file: ProviderFile | undefined = path === undefined ? undefined : await readProviderFile(path)
    return createCatalog(file, readVariable)
  }
  let catalog = await read()
  const prices = openPrices()
  const allTimings = { ...aiTimings, ...timings }
  const client = openUpstreamClient(allTimings)
  const circuits = createCircuits()
  const lacksResponses = new Set<string>()
  const ageDays = prices.ageDays(now())
  if (path !== undefined && ageDays > PRICES_DAYS_MAX)
    logger.warn(
      { ageDays },
      'the known prices of AI models are old: a newer release has newer ones, and routes can have their own',
    )
  return {
    get catalog() {
      return catalog
    },
    prices,
    timings: allTimings,
    client,
    circuits,
    bodies: createByteBudget(BODIES_BYTES_MAX, BODIES_BYTES_OF_CALLER_MAX),
    lacksResponses,
    calls: createRunningCalls(),
    async reload() {
      try {
        catalog = await read()
        lacksResponses.clear()
        circuits.closeAll()
        logger.info({ models: catalog.models.size }, 'the AI providers were read again')
      } catch (error) {
        logger.error({ err: error }, 'the AI providers stay as they were')
      }
    },
    close: () => client.close(),
  }
}
