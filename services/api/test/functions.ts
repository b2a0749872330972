import type { ZipEntry } from './zip.ts'

/** A Function of Build Output, as a zip has it: a module in ECMAScript, and what else its folder holds. */
export interface FunctionSource {
  code: string
  config?: object
  /** Further files of its folder, by path. */
  files?: Record<string, string>
}

const OUTPUT = '.vercel/output'

/** A `(req, res)` handler around a body. */
export const handler = (body: string): string => `export default async function (req, res) {\n${body}\n}\n`

/** Build Output with Functions by path, static files by path, and routes. */
export function buildOutput(
  functions: Record<string, string | FunctionSource>,
  { files = {}, ...config }: { files?: Record<string, string>; routes?: object[] } & Record<string, unknown> = {},
): ZipEntry[] {
  return [
    { name: `${OUTPUT}/config.json`, content: JSON.stringify({ version: 3, ...config }) },
    ...Object.entries(files).map(([path, content]) => ({ name: `${OUTPUT}/static/${path}`, content })),
    ...Object.entries(functions).flatMap(([path, given]) => {
      const source = typeof given === 'string' ? { code: given } : given
      const folder = `${OUTPUT}/functions/${path}.func`
      const vcConfig = { runtime: 'nodejs24.x', handler: 'index.mjs', launcherType: 'Nodejs', ...source.config }
      return [
        { name: `${folder}/.vc-config.json`, content: JSON.stringify(vcConfig) },
        { name: `${folder}/index.mjs`, content: source.code },
        ...Object.entries(source.files ?? {}).map(([name, content]) => ({ name: `${folder}/${name}`, content })),
      ]
    }),
  ]
}
