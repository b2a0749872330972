import { runService } from '@platform/service/run-service'
import { compose, migrate } from './compose.ts'
import { type Config, loadConfig } from './config.ts'
import type { Deps } from './deps.ts'
import { startApi } from './roles/api.ts'
import { startEdge } from './roles/edge.ts'
import { startWorker } from './roles/worker.ts'

const worker = (deps: Deps, { JOBS_EVERY_MS }: Config) => startWorker(deps, JOBS_EVERY_MS)
const api = (deps: Deps, { HOST: host, PORT: port, S3_PORT: s3Port }: Config) => startApi(deps, { host, port, s3Port })
const edge = (deps: Deps, { HOST: host, EDGE_PORT: port }: Config) => startEdge(deps, { host, port })

await runService({
  loadConfig,
  migrate,
  compose,
  roles: {
    all: async (deps, config) => [worker(deps, config), await api(deps, config), await edge(deps, config)],
    api: async (deps, config) => [await api(deps, config)],
    worker: async (deps, config) => [worker(deps, config)],
    edge: async (deps, config) => [await edge(deps, config)],
  },
})
