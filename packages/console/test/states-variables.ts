import type { TestPlatform } from '@platform/testing/platform'
import type { Page } from 'playwright-core'
import type { Owner } from '../../../services/api/test/scenario.ts'
import type { Layer } from '../src/screens/variables/layers.ts'

export interface GivenVariable {
  layer: Layer
  key: string
  value: string
  sensitive?: boolean
}

/** Creates a variable by the API. Throws what that answers. */
export async function createVariable(
  platform: TestPlatform,
  { token, organizationId, applicationId }: Pick<Owner, 'token' | 'organizationId' | 'applicationId'>,
  { layer, ...body }: GivenVariable,
): Promise<void> {
  const path = layer === 'organization' ? `/organizations/${organizationId}` : `/applications/${applicationId}`
  const environment = layer === 'production' || layer === 'preview' ? { environment: layer } : {}
  const answer = await platform.call(token, `POST ${path}/env-vars`, { ...body, ...environment })
  if (answer.status !== 201) throw new Error(answer.text)
}

/** Variables of each layer: one that two others hide, one that is sensitive over one that is not, one with line breaks, one of preview. */
export async function addVariables(platform: TestPlatform, owner: Owner): Promise<void> {
  const variables: readonly GivenVariable[] = [
    { layer: 'organization', key: 'SENTRY_DSN', value: 'https://3f9a@sentry.example/42' },
    { layer: 'organization', key: 'API_URL', value: 'https://api.example' },
    { layer: 'application', key: 'API_URL', value: 'https://shop.example' },
    { layer: 'production', key: 'API_URL', value: 'https://live.example' },
    { layer: 'organization', key: 'STRIPE_KEY', value: 'sk_test' },
    { layer: 'application', key: 'STRIPE_KEY', value: 'sk_live', sensitive: true },
    { layer: 'application', key: 'FEATURES', value: '{\n  "checkout": true,\n  "basket": "new"\n}' },
    { layer: 'application', key: `AN${'_UNUSUALLY_LONG_NAME'.repeat(4)}`, value: 'long' },
    { layer: 'preview', key: 'LOG_LEVEL', value: 'debug' },
  ]
  for (const variable of variables) await createVariable(platform, owner, variable)
}

const main = (page: Page) => page.getByRole('main')
/** Pages of variables are alike: one is known by its list's title. */
const rowIn = (title: string) => (page: Page) =>
  main(page).getByRole('region', { name: title, exact: true }).getByRole('cell', { name: 'SENTRY_DSN', exact: true })
const reads = /\/env-vars$/

/** The screens of variables, for states.chromium.test.ts, after `addVariables`. */
export const variableScreens = [
  {
    name: 'variables',
    path: ({ path }: { path: string }) => `${path}/variables`,
    reads,
    ready: rowIn('5 variables in production'),
  },
  {
    name: 'organization variables',
    path: ({ organization }: { organization: string }) => `${organization}/~/variables`,
    reads,
    ready: rowIn('3 variables'),
  },
]

/** Their forms, which are shown beside what the screens read. */
export const variableForms = [
  {
    name: 'variables new',
    path: ({ path }: { path: string }) => `${path}/variables?new`,
    ready: (page: Page) => main(page).getByLabel('Name'),
  },
  {
    name: 'variables paste',
    path: ({ path }: { path: string }) => `${path}/variables?environment=preview&paste`,
    ready: (page: Page) => main(page).getByLabel('Content of the .env'),
  },
]

/** The screens without anything in them. */
export const variableEmpties = [
  {
    name: 'variables',
    path: ({ path }: { path: string }) => `${path}/variables`,
    what: (page: Page) => main(page).getByText('Deployments in production get no variables yet.'),
    way: (page: Page) => main(page).getByRole('link', { name: 'Paste a .env' }).last(),
  },
  {
    name: 'organization variables',
    path: ({ organization }: { organization: string }) => `${organization}/~/variables`,
    what: (page: Page) => main(page).getByText('The organization has no variables.'),
    way: (page: Page) => main(page).getByRole('button', { name: 'Paste a .env' }).last(),
  },
]
