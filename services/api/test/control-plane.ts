import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { createLogger } from '@platform/runtime/logger'
import { type ApiDeps, composeApi as compose, startApi } from '@platform/testing/api'
import { loadConfig } from '../src/config.ts'
import type { UserActor } from '../src/http/actor.ts'
import { createApplication } from '../src/areas/tenancy/applications/applications.ts'
import { createOrganization } from '../src/areas/tenancy/organizations/organizations.ts'
import { API, type Cluster, openCluster, POSTGRES } from './cluster.ts'

/** Where pods have the folder of objects, which stands for a bucket. */
const OBJECTS = '/objects'

export interface ControlPlane {
  cluster: Cluster
  api: ApiDeps
  organizationId: string
  applicationId: string
  close: () => Promise<void>
}

/**
 * A cluster with what stands beside edges and workers: the test's Postgres, objects, and an API with the variables that its rendered pod
 * has. The API runs in this process.
 */
export async function openControlPlane(): Promise<ControlPlane> {
  await using opened = new AsyncDisposableStack()
  const newFolder = (prefix: string): string => {
    const folder = mkdtempSync(join(tmpdir(), prefix))
    opened.defer(() => rmSync(folder, { recursive: true, force: true }))
    return folder
  }
  const [objects, functions] = [newFolder('platform-objects-'), newFolder('fn-')]
  // Pods of the API run as a user of the image.
  chmodSync(objects, 0o777)
  const { url: databaseUrl } = await createServiceDatabase('api')
  const inCluster = new URL(databaseUrl)
  const postgres = { host: inCluster.hostname, port: Number(inCluster.port || 5432) }
  inCluster.host = `${POSTGRES}:5432`
  const secret = {
    DATABASE_URL: inCluster.href,
    MASTER_KEYS: `test:${randomBytes(32).toString('base64')}`,
    OBJECTS_URL: `file://${OBJECTS}`,
    STOP_NOTICE_MS: '1000',
  }
  const cluster = await openCluster({ api: secret }, { [OBJECTS]: objects })
  opened.defer(() => cluster.close())
  const config = loadConfig({
    ...cluster.variablesOf(cluster.deployment('api')),
    DATABASE_URL: databaseUrl,
    OBJECTS_URL: pathToFileURL(objects).href,
    FUNCTIONS_FOLDER: join(functions, 'f'),
    FUNCTION_SANDBOX: 'none',
    FUNCTION_EGRESS: 'host',
  })
  const { deps, close } = await compose(config, { logger: createLogger('api', 'silent') })
  opened.defer(close)
  const server = await startApi(deps, { host: '127.0.0.1', port: 0, s3Port: 0 })
  opened.defer(() => server.stop(0))
  await cluster.serve({ host: POSTGRES, port: 5432 }, postgres)
  await cluster.serve({ host: API, port: 4000 }, { host: '127.0.0.1', port: server.ports?.[0] ?? 0 })
  const by: UserActor = {
    kind: 'user',
    userId: 'u',
    clientId: 'c',
    scopes: new Set(),
    authenticatedAt: undefined,
  }
  const organization = await createOrganization(deps, by, { name: 'Cluster' })
  const application = await createApplication(deps, organization, { name: 'Cluster' })
  const closing = opened.move()
  return {
    cluster,
    api: deps,
    organizationId: organization.id,
    applicationId: application.id,
    close: () => closing.disposeAsync(),
  }
}
