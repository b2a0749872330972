import { X509Certificate } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'

interface CertificateOptions {
  /** Absolute; created. Commands have to see it. */
  folder: string
  /** The folder's path as commands see it. */
  inside: string
  /** A file of certificates as PEM. Default: that of this process's NODE_EXTRA_CA_CERTS. */
  extraFile?: string
  /** Receives problems with that file. */
  onWarning: (message: string) => void
}

/** Certificates by fingerprint. */
type Certificates = ReadonlyMap<string, X509Certificate>

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Writes the certificates that this process trusts, of the system's store and of its NODE_EXTRA_CA_CERTS, for the commands of a
 * sandbox. They see the store too, but Node does not read it, and no program knows of the file.
 *
 * Returns the variables that lead programs to them, none where they find everything by themselves: NODE_EXTRA_CA_CERTS for
 * Node, what runs in it and pnpm 12, which trust these besides their own; SSL_CERT_FILE for curl and most native programs, and
 * GIT_SSL_CAINFO for git, which trust these instead of the store. CURL_CA_BUNDLE is left alone: curl prefers it to an
 * SSL_CERT_FILE that an application may set.
 *
 * Everything is read now and never again. Whatever is wrong with the file is a warning.
 */
export async function writeCertificates(options: CertificateOptions): Promise<Record<string, string>> {
  const { folder, inside, onWarning } = options
  const bundled = parse(getCACertificates('bundled'))
  // Node lists each file of the store several times.
  const system = parse([...new Set(getCACertificates('system'))])
  const extra = await readExtra(options)
  const beyondStore = without(extra, system)
  for (const { subject, validTo, validToDate } of beyondStore.values())
    if (validToDate.getTime() < Date.now())
      onWarning(`NODE_EXTRA_CA_CERTS: the certificate "${subject.replaceAll('\n', ', ')}" expired on ${validTo}`)

  await mkdir(folder, { recursive: true, mode: 0o755 })
  const write = async (name: string, certificates: Certificates): Promise<string> => {
    await writeFile(join(folder, name), [...certificates.values()].join(''), { mode: 0o644 })
    return join(inside, name)
  }
  const variables: Record<string, string> = {}
  // Each process of Node that opens a TLS connection parses all of them, so those that it has anyway are left out.
  const beyondNode = without(new Map([...system, ...extra]), bundled)
  if (beyondNode.size > 0) variables['NODE_EXTRA_CA_CERTS'] = await write('node.pem', beyondNode)
  if (beyondStore.size > 0 || system.size === 0) {
    const all = new Map([...(system.size > 0 ? system : bundled), ...extra])
    variables['SSL_CERT_FILE'] = variables['GIT_SSL_CAINFO'] = await write('all.pem', all)
  }
  return variables
}

async function readExtra({ extraFile, onWarning }: CertificateOptions): Promise<Certificates> {
  // oxlint-disable-next-line node/no-process-env -- a variable of Node, not a setting of the platform
  const file = extraFile ?? process.env['NODE_EXTRA_CA_CERTS'] ?? ''
  if (file === '') return new Map()
  const warn = (problem: string): void => onWarning(`NODE_EXTRA_CA_CERTS: ${file} ${problem}`)
  let text = ''
  try {
    text = await readFile(file, 'latin1')
  } catch (error) {
    warn(`cannot be read: ${error instanceof Error ? error.message : 'unknown'}`)
    return new Map()
  }
  const blocks = text.match(PEM) ?? []
  if (blocks.length === 0) warn('has no certificate in the PEM format')
  return parse(blocks, (n) => warn(`has a malformed certificate, number ${n + 1}, which is left out`))
}

/** onMalformed: receives the index of a certificate that cannot be parsed; otherwise it throws. */
function parse(texts: readonly string[], onMalformed?: (index: number) => void): Certificates {
  const certificates = new Map<string, X509Certificate>()
  for (const [index, text] of texts.entries())
    try {
      const certificate = new X509Certificate(text)
      certificates.set(certificate.fingerprint256, certificate)
    } catch (error) {
      if (onMalformed === undefined) throw error
      onMalformed(index)
    }
  return certificates
}

const without = (certificates: Certificates, others: Certificates): Certificates =>
  new Map([...certificates].filter(([fingerprint]) => !others.has(fingerprint)))
