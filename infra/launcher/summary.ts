import { join } from 'node:path'
import { clients, demoEmail, helloLabel } from './clients.ts'
import type { Secrets } from './secrets.ts'

export type Urls = { consoleUrl: string; baseUrl: string; idpUrl: string; edgeUrl: string; s3Url: string }

const red = '\u001B[31m'
const plain = '\u001B[39m'

/** The URL of the demo account's site. */
const helloUrl = (edgeUrl: string): string => edgeUrl.replace('://', `://${helloLabel}.`)

/** How somebody deploys the folder that they are in. The name has the hash of what it stands for: npx keeps one for ever. */
const deployLines = (baseUrl: string, commandLine: string): string => `  Sign in, and deploy the folder that you are in:
    npx ${baseUrl}/docs/clients/${commandLine} login --url ${baseUrl}
    npx ${baseUrl}/docs/clients/${commandLine} deploy
`

/** One line of JSON with everything a program needs to use the platform. */
export function summarizeForPrograms({ consoleUrl, baseUrl, idpUrl, edgeUrl, s3Url }: Urls, secrets: Secrets): string {
  const { cli, console, confidential } = clients
  return JSON.stringify({
    consoleUrl,
    baseUrl,
    idpUrl,
    edgeUrl,
    s3Url,
    helloUrl: helloUrl(edgeUrl),
    demo: { email: demoEmail, password: secrets.demoPassword },
    clients: {
      cli: { id: cli.id, redirectUri: cli.redirectUri },
      console: { id: console.id, redirectUri: `${consoleUrl}${console.redirectPath}` },
      confidential: {
        id: confidential.id,
        secret: secrets.confidentialClientSecret,
        redirectUri: confidential.redirectUri,
      },
    },
  })
}

/**
 * The same for people: the URLs, how to sign in, what to try, how to stop.
 *
 * commandLine: the name of its package among the clients to download.
 * warnings: sentences on what is less safe than it should be; red in a terminal.
 */
export function summarizeForPeople(
  { consoleUrl, baseUrl, idpUrl, edgeUrl, s3Url }: Urls,
  secrets: Secrets,
  dataFolder: string,
  { warnings, isTerminal, commandLine }: { warnings: string[]; isTerminal: boolean; commandLine: string | undefined },
): string {
  const shown = warnings.map((warning) => (isTerminal ? `${red}${warning}${plain}\n` : `${warning}\n`)).join('')
  return `
The platform is running.

  Console            ${consoleUrl}
  API                ${baseUrl}
  API reference      ${baseUrl}/docs
  Identity provider  ${idpUrl}
  A deployed site    ${helloUrl(edgeUrl)}
  S3                 ${s3Url}
  Data and logs      ${dataFolder}
  Mail               ${join(dataFolder, 'mail')}

  Demo account       ${demoEmail}
  Password           ${secrets.demoPassword}

Try next:

  open the console in a browser, and sign in as the demo account, or create one of your own
  npm run demo       a tour through the API, in a second terminal
${commandLine === undefined ? '' : deployLines(baseUrl, commandLine)}
${shown === '' ? '' : `${shown}\n`}Ctrl-C stops everything; the data stays for the next start.
`
}
