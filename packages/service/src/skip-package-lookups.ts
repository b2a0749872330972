import { registerHooks, type ResolveFnOutput } from 'node:module'

/**
 * Loads modules without reading package.json for each import: Node reads and parses that file every time, and drizzle-orm's has
 * 179 kB. Relative imports resolve as written, in the workspace and in the listed packages; any other import is resolved once
 * per workspace package. Measured on the API: the modules load in 0.6 s instead of 0.95, and allocate 47 MB instead of 124.
 *
 * packages: names of packages whose files are all ES modules. Call it before anything imports them, that is, before a dynamic
 * import.
 */
export function skipPackageLookups(packages: readonly string[]): void {
  const folders = packages.map((name) => `/node_modules/${name}/`)
  const resolved = new Map<string, ResolveFnOutput>()
  registerHooks({
    resolve(specifier, context, next) {
      const { parentURL = '', conditions } = context
      const isWorkspace = parentURL.endsWith('.ts') && !parentURL.includes('/node_modules/')
      if (specifier.startsWith('.')) {
        const url = new URL(specifier, parentURL).href
        if (isWorkspace && url.endsWith('.ts')) return { url, format: 'module-typescript', shortCircuit: true }
        const isInside = folders.some((folder) => parentURL.includes(folder))
        return isInside ? { url, format: 'module', shortCircuit: true } : next(specifier, context)
      }
      if (!isWorkspace || specifier.includes(':')) return next(specifier, context)
      const key = [specifier, parentURL.split('/src/', 1)[0], ...conditions].join(' ')
      const known = resolved.get(key) ?? next(specifier, context)
      resolved.set(key, known)
      return { ...known, shortCircuit: true }
    },
  })
}
