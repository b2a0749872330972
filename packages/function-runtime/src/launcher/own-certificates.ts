import { readFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'

/**
 * Trusts what Node would trust if it had found an application's NODE_EXTRA_CA_CERTS, and NODE_USE_SYSTEM_CA, when it started:
 * by the time they arrive it has read the platform's. A file that cannot be used is a warning. Worker threads keep to the
 * platform's.
 */
export function trustOwnCertificates(file: string, variables: Record<string, string>): void {
  const others = [
    ...getCACertificates('bundled'),
    ...(variables['NODE_USE_SYSTEM_CA'] === '1' ? getCACertificates('system') : []),
  ]
  setDefaultCACertificates(others)
  if (file === '') return
  try {
    setDefaultCACertificates([...others, readFileSync(file, 'latin1')])
  } catch (error) {
    process.emitWarning(`Ignoring extra certs from \`${file}\`, load failed: ${String(error)}`)
  }
}
