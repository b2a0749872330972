import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fontFiles } from '@platform/look/font'
import { icon } from '@platform/look/mark'
import { tokensCss } from '@platform/look/tokens'
import { type EncodedContent, encodedContent } from '../../../http/encoded-content.ts'
import { startScript } from './reference-start.ts'
import { referenceStyle } from './reference-style.ts'

/** A file of the reference page. Its name changes with its content, so it may be cached forever. */
interface Asset {
  name: string
  type: string
  content: EncodedContent
}

function assetOf(stem: string, extension: string, type: string, bytes: Buffer, read: () => Promise<Buffer>): Asset {
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  return { name: `${stem}.${hash}.${extension}`, type, content: encodedContent(read) }
}

function inMemory(stem: string, extension: string, type: string, text: string): Asset {
  const bytes = Buffer.from(text)
  return assetOf(stem, extension, type, bytes, async () => bytes)
}

const javascript = 'text/javascript; charset=utf-8'

/** A font is compressed already. */
const asIs =
  (bytes: Buffer): EncodedContent =>
  async () => ({ headers: { vary: 'Origin' }, body: bytes })

async function openAssets(): Promise<{ scalar: Asset; start: Asset; style: Asset; icon: Asset; fonts: Asset[] }> {
  const folder = dirname(createRequire(import.meta.url).resolve('@scalar/api-reference'))
  const read = () => readFile(join(folder, 'browser/standalone.js'))
  return {
    scalar: assetOf('scalar', 'js', javascript, await read(), read),
    start: inMemory('start', 'js', javascript, startScript),
    style: inMemory('style', 'css', 'text/css; charset=utf-8', tokensCss + referenceStyle),
    icon: { name: icon.name, type: icon.type, content: encodedContent(async () => Buffer.from(icon.text)) },
    // The style sheet names them, in the same folder.
    fonts: fontFiles.map(({ name, type, bytes }) => ({ name, type, content: asIs(bytes) })),
  }
}

let opened: ReturnType<typeof openAssets> | undefined

/**
 * The files of the reference page. Opened on first use: the bundle has 4 MiB, which a service whose reference nobody reads need
 * not load.
 */
export function referenceAssets(): ReturnType<typeof openAssets> {
  if (opened) return opened
  const assets = openAssets()
  opened = assets
  assets.catch(() => (opened = undefined)) // the next request tries again
  return assets
}
