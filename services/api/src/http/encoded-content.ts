import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { chooseEncoded } from './accepted-encodings.ts'

type Coding = 'br' | 'gzip'

/** Returns content that is the same for everybody, in a coding that the client accepts, with the matching headers. */
export type EncodedContent = (
  acceptEncoding: string | undefined,
) => Promise<{ headers: Record<string, string>; body: Buffer }>

/** The highest quality that does not take seconds: 4 MiB take 0.35 s here, outside the event loop. */
const BROTLI_QUALITY = 9

const compressors: Readonly<Record<Coding, (content: Buffer) => Promise<Buffer>>> = {
  br: (content) =>
    promisify(brotliCompress)(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    }),
  gzip: (content) => promisify(gzip)(content, { level: 9 }),
}
const offered = [{ encoding: 'br' }, { encoding: 'gzip' }] as const

/**
 * Serves content compressed on demand. Each coding is compressed when a client first requests it, then kept in memory; the
 * uncompressed content is read anew each time. read: must always return the same bytes.
 */
export function encodedContent(read: () => Promise<Buffer>): EncodedContent {
  const kept = new Map<Coding, Promise<Buffer>>()
  function compressed(coding: Coding): Promise<Buffer> {
    const known = kept.get(coding)
    if (known) return known
    const made = read().then(compressors[coding])
    kept.set(coding, made)
    made.catch(() => kept.delete(coding)) // the next client tries again
    return made
  }
  return async (acceptEncoding) => {
    const coding = chooseEncoded(acceptEncoding, offered)?.encoding
    const body = await (coding === undefined ? read() : compressed(coding))
    // Origin is listed because any answer may vary by it.
    return { headers: { vary: 'Origin, Accept-Encoding', ...(coding && { 'content-encoding': coding }) }, body }
  }
}
