import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'

/** A package to serve: file contents by path, including package.json, or the folder in which it is installed. */
export interface PublishedPackage {
  name: string
  version: string
  files?: Record<string, string>
  folder?: string
}

/** A package registry on loopback, compatible with npm, pnpm and Yarn. */
export interface PackageRegistry {
  url: string
  /** In the format of lockfiles: `sha512-…`. */
  integrityOf(name: string): string
  /** The tarball URL of a package, as in lockfiles. */
  tarballOf(name: string): string
  /** Requested paths, in order. */
  requests: string[]
  close(): Promise<void>
}

const BLOCK = 512
const TARBALL_BYTES_MAX = 256 * 1_048_576
const HOST = '127.0.0.2'

/** A ustar header and the content, both padded to blocks. */
function tarEntry(path: string, content: Buffer): Buffer {
  const header = Buffer.alloc(BLOCK)
  header.write(path, 0)
  header.write('0000644\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
  header.write('00000000000\0', 136)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([header, content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)])
}

function pack({ files = {}, folder }: PublishedPackage): Buffer {
  if (folder !== undefined)
    return execFileSync(
      'tar',
      [
        '-c',
        '--use-compress-program=gzip -1',
        '-C',
        folder,
        '--hard-dereference',
        '--exclude=./node_modules',
        '--transform=s,^\\.,package,',
        '.',
      ],
      {
        maxBuffer: TARBALL_BYTES_MAX,
      },
    )
  const entries = Object.entries(files).map(([path, text]) => tarEntry(`package/${path}`, Buffer.from(text)))
  return gzipSync(Buffer.concat([...entries, Buffer.alloc(2 * BLOCK)]))
}

const manifestOf = ({ files, folder }: PublishedPackage): Partial<Manifest> =>
  JSON.parse(
    folder === undefined ? (files?.['package.json'] ?? '{}') : readFileSync(join(folder, 'package.json'), 'utf8'),
  ) as Partial<Manifest>

interface Manifest {
  name: string
  version: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}

/** Installed packages with all their dependencies. from: a file of the package whose node_modules holds them. */
export function installedPackages(names: readonly string[], from: string): PublishedPackage[] {
  const packages = new Map<string, PublishedPackage>()
  const add = (name: string, requiredBy: string): void => {
    const paths = createRequire(requiredBy).resolve.paths(`${name}/package.json`) ?? []
    const installed = paths.map((path) => join(path, name, 'package.json')).find((path) => existsSync(path))
    // Missing packages are optional ones for other machines, or peers that were not installed.
    if (installed === undefined) return
    const path = realpathSync(installed)
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest
    const id = `${name}@${manifest.version}`
    if (packages.has(id)) return
    packages.set(id, { name, version: manifest.version, folder: dirname(path) })
    const { dependencies, optionalDependencies, peerDependencies } = manifest
    for (const each of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) add(each, path)
  }
  for (const name of names) add(name, from)
  return [...packages.values()]
}

/**
 * Serves packages on a free port of 127.0.0.2: a loopback address on Linux, yet not one for which programs bypass their
 * proxy. tls: the certificate of an https registry and its key, as PEM.
 */
export async function startPackageRegistry(
  published: readonly PublishedPackage[],
  tls?: { cert: string; key: string },
): Promise<PackageRegistry> {
  /** Packages by name; versions in the given order. */
  const packages = Map.groupBy(published, ({ name }) => name)
  const tarballs = new Map<PublishedPackage, Buffer>()
  const requests: string[] = []
  let url = ''
  const bytesOf = (each: PublishedPackage): Buffer => {
    let tarball = tarballs.get(each)
    if (!tarball) tarballs.set(each, (tarball = pack(each)))
    return tarball
  }
  const get = (name: string): PublishedPackage => {
    const newest = packages.get(name)?.[0]
    if (!newest) throw new Error(`${name} is not published`)
    return newest
  }
  const addressOf = ({ name, version }: PublishedPackage): string =>
    `${url}/${name}/-/${name.replace(/^.*\//, '')}-${version}.tgz`
  const tarballOf = (name: string): string => addressOf(get(name))
  const integrityOf = (name: string): string =>
    `sha512-${createHash('sha512')
      .update(bytesOf(get(name)))
      .digest('base64')}`
  /** Optional packages for other machines are not installed here, so lockfiles would lack them. */
  const withoutOthers = ({ optionalDependencies = {}, ...manifest }: Partial<Manifest>) => ({
    ...manifest,
    optionalDependencies: Object.fromEntries(
      Object.entries(optionalDependencies).filter(([name]) => packages.has(name)),
    ),
  })
  /**
   * The registry's metadata of all versions. For packages from a folder it has no hash: their tarballs are only built on
   * request.
   */
  const packumentOf = (name: string, versions: readonly PublishedPackage[]): string =>
    JSON.stringify({
      name,
      'dist-tags': { latest: versions.at(-1)?.version },
      versions: Object.fromEntries(
        versions.map((each) => [
          each.version,
          {
            ...withoutOthers(manifestOf(each)),
            name,
            version: each.version,
            dist: {
              tarball: addressOf(each),
              ...(each.folder === undefined && { integrity: integrityOf(name) }),
              ...(each.folder === undefined && { shasum: createHash('sha1').update(bytesOf(each)).digest('hex') }),
            },
          },
        ]),
      ),
      time: Object.fromEntries(
        ['created', 'modified', ...versions.map(({ version }) => version)].map((key) => [
          key,
          '2024-01-01T00:00:00.000Z',
        ]),
      ),
    })
  const answer: RequestListener = (incoming, outgoing) => {
    const path = decodeURIComponent(incoming.url ?? '')
    requests.push(path)
    const [, name = '', file] = /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+\.tgz))?$/.exec(path) ?? []
    const versions = packages.get(name)
    const wanted = versions?.find((each) => file !== undefined && addressOf(each).endsWith(`/${file}`))
    if (!versions || (file !== undefined && !wanted))
      outgoing.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not_found"}')
    else if (wanted) {
      const tarball = bytesOf(wanted)
      outgoing.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': tarball.length })
      outgoing.end(tarball)
    } else outgoing.writeHead(200, { 'content-type': 'application/json' }).end(packumentOf(name, versions))
  }
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer)
  await new Promise<void>((resolve) => void server.listen(0, HOST, resolve))
  // Does not keep the process alive.
  server.unref()
  url = `${tls === undefined ? 'http' : 'https'}://${HOST}:${(server.address() as AddressInfo).port}`
  return {
    url,
    integrityOf,
    tarballOf,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
