import { isForDeploying, isForStorage } from './scopes.ts'
import { SECRET } from './shown-secret.ts'

interface Snippet {
  /** What it is, such as `the workflow`: completes "Copy …". */
  what: string
  /** Where it goes. */
  place: string
  text: string
}

/** How a kind of program is given a key. */
export interface Configuration {
  name: string
  snippets: readonly Snippet[]
}

interface Key {
  id: string
  scopes: readonly string[]
  applicationId: string
}

const environmentOf = (apiUrl: string, { id }: Key): string =>
  `PLATFORM_API_URL=${apiUrl}\nPLATFORM_CLIENT_ID=${id}\nPLATFORM_CLIENT_SECRET=${SECRET}`

/** `docs/cli.md`, CI. The secret is not part of the file, which everybody reads. */
const workflowOf = (apiUrl: string): string => `on: { push: { branches: [main] } }
jobs:
  deploy:
    runs-on: ubuntu-latest
    env:
      PLATFORM_API_URL: ${apiUrl}
      PLATFORM_CLIENT_ID: \${{ secrets.PLATFORM_CLIENT_ID }}
      PLATFORM_CLIENT_SECRET: \${{ secrets.PLATFORM_CLIENT_SECRET }}
    steps:
      - uses: actions/checkout@v5
      - run: curl -fsSo ~/platform.mjs "$PLATFORM_API_URL/docs/clients/platform.mjs"
      - run: node ~/platform.mjs deploy`

/** `docs/storage.md`, Clients. */
const awsOf = (apiUrl: string, { id }: Key): string => `[profile platform]
endpoint_url = ${apiUrl}/s3
region = local
aws_access_key_id = ${id}
aws_secret_access_key = ${SECRET}
s3 =
  addressing_style = path`

const rcloneOf = (apiUrl: string, { id }: Key): string => `[platform]
type = s3
provider = Other
endpoint = ${apiUrl}/s3
access_key_id = ${id}
secret_access_key = ${SECRET}
force_path_style = true`

/** A first call that the scopes allow. */
const firstCalls: readonly { scope: string; name: string; call: (key: Key) => string }[] = [
  {
    scope: 'network:deployments:read',
    name: 'listDeployments',
    call: ({ applicationId }) => `await listDeployments(platform, { applicationId: '${applicationId}' })`,
  },
  {
    scope: 'network:storage:read',
    name: 'listBuckets',
    call: ({ applicationId }) =>
      `await listBuckets(platform, { applicationId: '${applicationId}', environment: 'production' })`,
  },
  { scope: 'network:ai_gateway:models', name: 'listModels', call: () => 'await listModels(platform)' },
  {
    scope: 'network:env_vars:read',
    name: 'listApplicationVariables',
    call: ({ applicationId }) => `await listApplicationVariables(platform, { id: '${applicationId}' })`,
  },
  { scope: 'network:applications:read', name: 'listApplications', call: () => 'await listApplications(platform)' },
]

function programOf(key: Key): string {
  const first = firstCalls.find(({ scope }) => key.scopes.includes(scope))
  const imports = first ? `${first.name}, Platform` : 'Platform'
  const last = first ? `console.log(${first.call(key)})` : 'console.log(await platform.token())'
  return `import { ${imports} } from '@platform/sdk'

const platform = new Platform()
${last}`
}

/** How programs are given a key, of those that its scopes are for; SECRET stands for the secret. */
export function configurationsOf(apiUrl: string, key: Key): Configuration[] {
  const environment = environmentOf(apiUrl, key)
  const secrets = environment.slice(environment.indexOf('\n') + 1)
  const all: (Configuration & { isMeant: boolean })[] = [
    {
      name: 'CI with GitHub Actions',
      isMeant: isForDeploying(key.scopes),
      snippets: [
        { what: 'the secrets', place: 'Secrets of the repository, as `gh secret set -f -` reads them', text: secrets },
        { what: 'the workflow', place: '.github/workflows/deploy.yml', text: workflowOf(apiUrl) },
      ],
    },
    {
      name: 'S3',
      isMeant: isForStorage(key.scopes),
      snippets: [
        { what: 'the profile', place: '~/.aws/config, for `aws --profile platform s3 ls`', text: awsOf(apiUrl, key) },
        {
          what: 'the remote',
          place: '~/.config/rclone/rclone.conf, for `rclone lsd platform:`',
          text: rcloneOf(apiUrl, key),
        },
      ],
    },
    {
      name: 'TypeScript with the SDK',
      isMeant: true,
      snippets: [
        { what: 'the environment', place: '.env, which is not committed', text: environment },
        { what: 'the program', place: 'main.ts, for `node --env-file=.env main.ts`', text: programOf(key) },
      ],
    },
  ]
  return all.filter(({ isMeant }) => isMeant)
}
