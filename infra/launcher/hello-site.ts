import { existsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import {
  all,
  createApplication,
  createOrganization,
  listApplications,
  listOrganizations,
  memoryStore,
  Platform,
  setHostname,
  userToken,
} from '@platform/sdk'
import { folder } from '@platform/sdk/node'
import { signInByDevice, signOut } from '@platform/sdk/sign-in'
import { deployFolder } from '@platform/sdk/uploads'
import { approveDevice } from '@platform/testkit/approve-device'
import { demoEmail, helloLabel } from './clients.ts'
import type { Urls } from './summary.ts'

const site = resolve(import.meta.dirname, '../sites/hello')
const scopes = [
  'offline_access',
  'platform:organizations:write',
  'network:applications:write',
  'network:deployments:trigger',
  'network:deployments:read',
]

/**
 * Deploys a small site of the demo account, so that something answers at a hostname before any user has deployed. It uses the
 * public API like any client, once per data folder; later changes by users stay. Safe to repeat after an interrupted start.
 *
 * Returns a sentence on why there is no site if the demo account could not deploy one, for example after its password was
 * changed: the platform runs without it, and does not try again.
 */
export async function deployHelloSite(
  dataFolder: string,
  { baseUrl }: Pick<Urls, 'baseUrl'>,
  password: string,
  isStopping: () => boolean,
): Promise<string | undefined> {
  const marker = join(dataFolder, 'hello-deployed')
  if (existsSync(marker)) return undefined
  let failure: string | undefined
  try {
    await deploy(baseUrl, password)
  } catch (error) {
    if (isStopping()) return undefined
    const why = error instanceof Error ? error.message : String(error)
    failure = `The site of the demo account was not deployed: ${why} Delete ${marker} to try again.`
  }
  writeFileSync(marker, `${new Date().toISOString()}\n`, { mode: 0o600 })
  return failure
}

async function deploy(baseUrl: string, password: string): Promise<void> {
  const store = memoryStore()
  await signInByDevice({
    baseUrl,
    scopes,
    store,
    onCode: (code) => approveDevice(code, { email: demoEmail, password }),
  })
  const platform = new Platform({ baseUrl, credential: userToken({ store }) })
  const find = async <T extends { name: string }>(items: AsyncIterable<T>, name: string): Promise<T | undefined> => {
    for await (const item of items) if (item.name === name) return item
    return undefined
  }
  const organization =
    (await find(all(listOrganizations, platform), 'Demo')) ??
    (await createOrganization(platform, { body: { name: 'Demo' } }))
  const organizationId = organization.id
  const application =
    (await find(all(listApplications, platform, { organizationId }), 'Hello')) ??
    (await createApplication(platform, { body: { name: 'Hello', organizationId } }))
  await setHostname(platform, { id: application.id, body: { label: helloLabel } })
  await deployFolder(platform, { applicationId: application.id, source: folder(site) })
  await signOut({ store })
}
