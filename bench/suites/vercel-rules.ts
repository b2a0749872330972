import { strictEqual } from 'node:assert/strict'
import type { OutputManifest } from '@platform/build-output/manifest'
import { readVercel } from '@platform/build-output/read-vercel'
import { treeOf } from '@platform/build-output/tree-of'
import { deployFiles } from '../deploy-files.ts'
import { textOf } from '../storage.ts'
import type { Contender, Suite } from '../suite.ts'

const FILE = 'app.0a1b2c3d4e5f.bin'
const BYTES = 4_096
const times = <T>(count: number, of: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n))

/** A thousand rules as sites that have grown for years hold them, none of them about the file. */
const config = {
  redirects: [
    ...times(400, (n) => ({ source: `/old/page-${n}`, destination: `/new/${n}` })),
    ...times(200, (n) => ({ source: `/section-${n}/:slug`, destination: `/s/${n}/:slug` })),
  ],
  headers: times(100, (n) => ({ source: `/area-${n}/(.*)`, headers: [{ key: 'x-area', value: `${n}` }] })),
  rewrites: times(300, (n) => ({ source: `/api-${n}/:path*`, destination: `/index.html?n=${n}` })),
}

/** A header for all paths, which any site may have. */
const header = { source: '/(.*)', headers: [{ key: 'x-frame-options', value: 'DENY' }] }

async function routesOf(rules: object): Promise<Partial<OutputManifest>> {
  const vercel = await readVercel(treeOf({ 'vercel.json': JSON.stringify(rules) }), '')
  if (vercel === undefined) throw new Error('vercel.json was not read')
  return { vercel: { routes: vercel.routes } }
}

const suiteOf = (
  name: string,
  work: string,
  many: object,
  few: Partial<OutputManifest>,
  added: string | null,
): Suite => ({
  name,
  work: `GET of a file of ${BYTES} bytes of a site with a thousand rules in vercel.json, and of ${work}`,
  async prepare(lab) {
    const text = textOf(BYTES)
    const files = [{ path: FILE, content: Buffer.from(text), contentType: 'application/octet-stream' }]
    const hosts = new Map([
      ['ours', await deployFiles(lab, files, await routesOf(many))],
      ['without', await deployFiles(lab, files, few)],
    ])
    const platform = await lab.platform()
    const contender = (of: string): Contender => ({ name: of, origin: platform.edgeOrigin, pid: platform.apiPid })
    return {
      load: {
        method: 'GET',
        path: `/${FILE}`,
        headers: async (of) => ({ host: hosts.get(of.name) ?? '' }),
        addressBlock: 62,
        connections: 64,
      },
      ours: contender('ours'),
      peers: [{ ...contender('without'), aim: { cpuRatioMax: 1.05 } }],
      async check(of, answer) {
        strictEqual(await answer.text(), text, of)
        strictEqual(answer.headers.get('x-frame-options'), added, of)
      },
    }
  },
})

export const vercelRules: Suite = suiteOf('vercel-rules', 'one without any', config, {}, null)
export const vercelHeader: Suite = suiteOf(
  'vercel-header',
  'one with a header for all paths in `_headers`',
  { ...config, headers: [...config.headers, header] },
  { site: { redirects: [], headers: [{ path: '/*', set: [['x-frame-options', 'DENY']], unset: [] }] } },
  'DENY',
)
