import { existsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { openAsk, bearer, form, json } from '../client/ask.ts'
import { deployFolder } from '../client/deploy-folder.ts'
import { beginDeviceSignIn, type Tokens } from '../client/sign-in.ts'
import { clients, demoEmail, helloLabel } from './clients.ts'
import type { Urls } from './summary.ts'

const site = resolve(import.meta.dirname, '../sites/hello')
const scopes = [
  'platform:organizations:write',
  'network:applications:write',
  'network:deployments:trigger',
  'network:deployments:read',
]

interface Named {
  id: string
  name: string
}

/**
 * Deploys a small site of the demo account, so that something answers at a hostname before any user has deployed. It uses the
 * public API like any client, once per data folder; later changes by users stay. Safe to repeat after an interrupted start.
 *
 * Returns a sentence on why there is no site if the demo account could not deploy one, for example after its password was
 * changed: the platform runs without it, and does not try again.
 */
export async function deployHelloSite(
  dataFolder: string,
  urls: Pick<Urls, 'baseUrl' | 'idpUrl'>,
  password: string,
  isStopping: () => boolean,
): Promise<string | undefined> {
  const marker = join(dataFolder, 'hello-deployed')
  if (existsSync(marker)) return undefined
  let failure: string | undefined
  try {
    await deploy(urls, password)
  } catch (error) {
    if (isStopping()) return undefined
    const why = error instanceof Error ? error.message : String(error)
    failure = `The site of the demo account was not deployed: ${why} Delete ${marker} to try again.`
  }
  writeFileSync(marker, `${new Date().toISOString()}\n`, { mode: 0o600 })
  return failure
}

async function deploy({ baseUrl, idpUrl }: Pick<Urls, 'baseUrl' | 'idpUrl'>, password: string): Promise<void> {
  const ask = openAsk()
  const signIn = await beginDeviceSignIn(ask, idpUrl, clients.cli.id, scopes)
  await signIn.approve({ email: demoEmail, password })
  const { access_token: token } = await signIn.poll<Tokens>(200)

  const findOrMake = async (path: string, filter: string, body: { name: string }): Promise<string> => {
    const { items } = await ask<{ items: Named[] }>(`${baseUrl}${path}${filter}`, 200, bearer(token))
    const application = items.find(({ name }) => name === body.name)
    return (application ?? (await ask<Named>(`${baseUrl}${path}`, 201, json(token, body)))).id
  }
  const organization = { name: 'Demo' }
  const organizationId = await findOrMake('/organizations', '?limit=100', organization)
  const application = { name: 'Hello', organizationId }
  const applicationId = await findOrMake('/applications', `?limit=100&organizationId=${organizationId}`, application)
  await ask(`${baseUrl}/applications/${applicationId}/hostname`, 200, json(token, { label: helloLabel }, 'PUT'))
  await deployFolder(ask, { baseUrl, token }, applicationId, site)
  await ask(`${idpUrl}/oauth2/revoke`, 200, form({ client_id: clients.cli.id, token }))
}
