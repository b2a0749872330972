import { gzipSync } from 'node:zlib'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** A program bundled as for a browser: a module that needs Node fails. Its `@platform/sdk…` are the sources. */
export async function bundle(program: string, platform: 'browser' | 'node' = 'browser'): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: program, resolveDir: fileURLToPath(new URL('.', import.meta.url)), loader: 'ts' },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    platform,
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}

/** The size of a bundle as it is sent. */
export const gzippedBytes = async (program: string): Promise<number> =>
  gzipSync(await bundle(program), { level: 9 }).length
