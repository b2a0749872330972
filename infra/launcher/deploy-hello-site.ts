import { resolve } from 'node:path'
import { json } from 'node:stream/consumers'
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

// Run by hello-site.ts, which writes `{ baseUrl, password }` to its stdin. Ends with 1 and a sentence on stderr if it fails.

const site = resolve(import.meta.dirname, '../sites/hello')
const scopes = [
  'offline_access',
  'platform:organizations:write',
  'network:applications:write',
  'network:deployments:trigger',
  'network:deployments:read',
]

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

try {
  const { baseUrl, password } = (await json(process.stdin)) as { baseUrl: string; password: string }
  await deploy(baseUrl, password)
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
