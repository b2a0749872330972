import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { EXPIRED_CERTIFICATE, OTHER_AUTHORITY, PRIVATE_AUTHORITY } from './test-authorities.ts'

const run = promisify(execFile)
const base = mkdtempSync(join(tmpdir(), 'certificates-'))
afterAll(() => rmSync(base, { recursive: true }))

const COMPANY = PRIVATE_AUTHORITY.certificate
const OF_STORE = OTHER_AUTHORITY.certificate
/** A root that comes with Node. */
const BUNDLED = new X509Certificate(rootCertificates[0] ?? '').toString()

interface Written {
  variables: Record<string, string>
  warnings: string[]
  /** The certificates of a variable's file. */
  read(name: string): string[]
}

/** What a process writes that has these certificates in its system's store and, as text, in its NODE_EXTRA_CA_CERTS. */
async function write(store: string[], extra?: string): Promise<Written> {
  const folder = mkdtempSync(join(base, 'process-'))
  const [storeFile, extraFile, target] = ['store.pem', 'extra.pem', 'written'].map((name) => join(folder, name))
  writeFileSync(storeFile ?? '', store.join(''))
  if (extra !== undefined) writeFileSync(extraFile ?? '', extra)
  const code = `
    import { writeCertificates } from ${JSON.stringify(join(import.meta.dirname, 'certificates.ts'))}
    const warnings = []
    const onWarning = (message) => warnings.push(message)
    const variables = await writeCertificates({ folder: ${JSON.stringify(target)}, inside: '/inside', onWarning })
    console.log(JSON.stringify({ variables, warnings }))`
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], {
    env: {
      SSL_CERT_FILE: storeFile,
      SSL_CERT_DIR: join(folder, 'none'),
      ...(extra !== undefined && { NODE_EXTRA_CA_CERTS: extraFile }),
    },
  })
  const { variables, warnings } = JSON.parse(stdout) as Pick<Written, 'variables' | 'warnings'>
  return {
    variables,
    warnings: warnings.map((each) => each.replaceAll(extraFile ?? '', 'FILE')),
    read: (name) =>
      readFileSync((variables[name] ?? '').replace('/inside', target ?? ''), 'utf8').split(
        /(?<=END CERTIFICATE-----\n)/,
      ),
  }
}

describe('the certificates that a process trusts', () => {
  test('Node is given the authorities that it lacks, and other programs those and the store', async () => {
    const { variables, warnings, read } = await write(
      [OF_STORE, BUNDLED],
      `# Company\n${COMPANY}\n${BUNDLED}${COMPANY}`,
    )
    expect(variables).toEqual({
      NODE_EXTRA_CA_CERTS: '/inside/node.pem',
      SSL_CERT_FILE: '/inside/all.pem',
      GIT_SSL_CAINFO: '/inside/all.pem',
    })
    expect(read('NODE_EXTRA_CA_CERTS').toSorted()).toEqual([OF_STORE, COMPANY].toSorted())
    expect(read('SSL_CERT_FILE').toSorted()).toEqual([OF_STORE, BUNDLED, COMPANY].toSorted())
    expect(warnings).toEqual([])
  })

  test('are named to Node alone if the store has them all', async () => {
    const { variables, read } = await write([OF_STORE, COMPANY], COMPANY)
    expect(Object.keys(variables)).toEqual(['NODE_EXTRA_CA_CERTS'])
    expect(read('NODE_EXTRA_CA_CERTS').toSorted()).toEqual([OF_STORE, COMPANY].toSorted())
  })

  test('are named to nobody if Node and the store have them all', async () => {
    expect((await write([BUNDLED], BUNDLED)).variables).toEqual({})
    expect((await write([BUNDLED])).variables).toEqual({})
  })

  test('are those of Node for other programs if there is no store', async () => {
    const { read } = await write([], COMPANY)
    expect(read('NODE_EXTRA_CA_CERTS')).toEqual([COMPANY])
    expect(read('GIT_SSL_CAINFO')).toHaveLength(rootCertificates.length + 1)
  })

  test.each([
    ['an empty file', '', 'FILE has no certificate in the PEM format', []],
    [
      'a malformed certificate',
      `-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n${COMPANY}`,
      'FILE has a malformed certificate, number 1, which is left out',
      [COMPANY],
    ],
    [
      'an expired certificate',
      `${EXPIRED_CERTIFICATE}${COMPANY}`,
      'the certificate "CN=Expired private authority of tests" expired on Jan  1 00:00:00 2021 GMT',
      [EXPIRED_CERTIFICATE, COMPANY],
    ],
  ])('come with a warning if there is %s, and the others are trusted', async (_, extra, warning, trusted) => {
    const { warnings, read } = await write([OF_STORE], extra)
    expect(warnings).toEqual([`NODE_EXTRA_CA_CERTS: ${warning}`])
    expect(read('NODE_EXTRA_CA_CERTS')).toEqual([OF_STORE, ...trusted])
  })

  test('come with a warning if the file is missing', async () => {
    const { writeCertificates } = await import('./certificates.ts')
    const warnings: string[] = []
    const onWarning = (message: string): void => void warnings.push(message)
    const extraFile = join(base, 'none.pem')
    await writeCertificates({ folder: join(base, 'written'), inside: '/inside', extraFile, onWarning })
    expect(warnings).toEqual([expect.stringMatching(/^NODE_EXTRA_CA_CERTS: .*none\.pem cannot be read: ENOENT/)])
  })
})
