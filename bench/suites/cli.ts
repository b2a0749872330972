import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { env } from 'node:process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Lab } from '../lab.ts'
import type { Suite, Trial } from '../suite.ts'

const run = promisify(execFile)
const starter = fileURLToPath(import.meta.resolve('../peers/program-starter.ts'))
const repository = resolve(import.meta.dirname, '../..')

/** Builds the command line as it is served. Returns the path of the one file. */
async function buildProgram(lab: Lab): Promise<string> {
  const folder = await lab.makeFolder()
  const PATH = `${join(repository, 'node_modules/.bin')}:${env['PATH']}`
  await run(process.execPath, [join(repository, 'packages/cli/build.ts'), folder], { env: { PATH, HOME: folder } })
  return join(folder, 'platform.mjs')
}

export const cliStart: Suite = {
  name: 'cli-start',
  work: 'the command line says who is signed in, which it has in a file: what a run costs beside one of an empty program',
  async prepare(lab) {
    const program = await buildProgram(lab)
    const home = await lab.makeFolder()
    const signIn = {
      baseUrl: 'http://localhost:4000',
      issuer: 'http://localhost:4001',
      clientId: 'x',
      accessToken: 'x',
      expiresAt: 0,
    }
    const user = { id: 'x', email: 'ana@example.com', name: 'Ana' }
    const profiles = { current: 'default', profiles: { default: { baseUrl: signIn.baseUrl, user, signIn } } }
    await mkdir(join(home, '.config/platform'), { recursive: true })
    await writeFile(join(home, '.config/platform/credentials.json'), JSON.stringify(profiles), { mode: 0o600 })
    const trial = async (name: string, ...args: string[]): Promise<Trial> => {
      const { origin, pid } = await lab.startPeer(name, starter, { arguments: JSON.stringify(args), home })
      return {
        name,
        pid,
        async measure(seconds) {
          const startedAt = performance.now()
          const answer = await fetch(`${origin}/?seconds=${seconds}`)
          if (!answer.ok) throw new Error(await answer.text())
          return { perSecond: (Number(await answer.text()) * 1_000) / (performance.now() - startedAt) }
        },
      }
    }
    return {
      ours: await trial('whoami', program, 'whoami'),
      peers: [{ ...(await trial('empty', '-e', '0')), aim: { cpuRatioMax: 2.5 } }],
    }
  },
}

const FILES = 5_000
const FILE_BYTES = 400

/** What the API's guide does by hand, until the log ends. */
const BY_HAND = `
get() { node -pe "JSON.parse(fs.readFileSync(0, 'utf8'))$1"; }
post() { curl -sf -X POST $api$1 -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d "$2"; }
rm -f $archive && (cd $folder && zip -qr $archive .)
token=$(curl -sf $api/oauth2/token -d grant_type=client_credentials -d client_id=$id -d client_secret=$secret | get .access_token)
deployment=$(post /deployments "{\\"applicationId\\":\\"$app\\"}" | get .id)
upload=$(post /deployments/$deployment/upload/start '{}' | get .uploadId)
url=$(post /deployments/$deployment/upload/part "{\\"uploadId\\":\\"$upload\\",\\"partNumber\\":1}" | get .url)
etag=$(curl -sf -T $archive "$url" -D - -o /dev/null | tr -d '\\r' | sed -n 's/^etag: //Ip')
post /deployments/$deployment/upload/complete "{\\"uploadId\\":\\"$upload\\",\\"parts\\":[{\\"partNumber\\":1,\\"etag\\":$etag}]}"
curl -sfN $api/deployments/$deployment/logs/stream -H "Authorization: Bearer $token" | grep -q '"status":"ACTIVE"'
`

export const cliDeploy: Suite = {
  name: 'cli-deploy',
  work: `a folder of ${FILES} small files is deployed, from the command to ACTIVE: by the command line, and by zip and curl`,
  async prepare(lab) {
    const [program, platform, folder, home] = await Promise.all([
      buildProgram(lab),
      lab.platform(),
      lab.makeFolder(),
      lab.makeFolder(),
    ])
    for (let n = 0; n < 64; n++) await mkdir(join(folder, `pages/${n}`), { recursive: true })
    for (let n = 0; n < FILES; n++)
      await writeFile(
        join(folder, n === 0 ? 'index.html' : `pages/${n % 64}/page-${n}.html`),
        randomBytes(FILE_BYTES / 2).toString('hex'),
      )
    const name = `Deploys ${randomBytes(4).toString('hex')}`
    const { id: organizationId } = await platform.call<{ id: string }>('POST', '/organizations', { name })
    const { id: applicationId } = await platform.call<{ id: string }>('POST', '/applications', { organizationId, name })
    const scopes = ['network:deployments:trigger', 'network:deployments:read']
    const key = await platform.call<{ id: string; secret: string }>('POST', '/api-keys', {
      name,
      applicationId,
      scopes,
    })
    // What is asked of the platform is for its own address.
    const api = platform.apiOrigin.replace('127.0.0.1', 'localhost')
    const trial = (called: string, deployOnce: () => Promise<unknown>): Trial => ({
      name: called,
      async measure(seconds) {
        const times: number[] = []
        const startedAt = performance.now()
        while (performance.now() - startedAt < seconds * 1_000 || times.length === 0) {
          const begunAt = performance.now()
          await deployOnce()
          times.push(performance.now() - begunAt)
        }
        const sorted = times.toSorted((a, b) => a - b)
        const took = times.reduce((sum, each) => sum + each, 0) / 1_000
        return { perSecond: times.length / took, seconds: took, p50Ms: sorted[Math.floor(sorted.length / 2)] ?? 0 }
      },
    })
    const PATH = `${join(repository, 'node_modules/.bin')}:${env['PATH']}`
    const asKey = {
      PATH,
      HOME: home,
      PLATFORM_API_URL: api,
      PLATFORM_CLIENT_ID: key.id,
      PLATFORM_CLIENT_SECRET: key.secret,
    }
    const byHand = {
      PATH,
      api,
      id: key.id,
      secret: key.secret,
      app: applicationId,
      folder,
      archive: join(home, 'site.zip'),
    }
    return {
      ours: trial('deploy', () => run(process.execPath, [program, 'deploy', folder], { env: asKey })),
      peers: [
        {
          ...trial('zip and curl', () => run('sh', ['-euc', BY_HAND], { env: byHand })),
          aim: { p50RatioMax: 1.3 },
        },
      ],
    }
  },
}
