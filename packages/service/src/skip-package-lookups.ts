import { registerHooks } from 'node:module'

/**
 * Makes the files of the named packages load without a look at their package.json. Node reads it anew for every file that
 * a package imports from itself, and that of drizzle-orm has 179 kB: measured, a service that talks to Postgres then
 * starts in 0.33 s instead of 0.95, and without 130 MB of garbage.
 *
 * packages: names whose files are all ES modules. Call it before anything imports them, so ahead of a dynamic import.
 */
export function skipPackageLookups(packages: readonly string[]): void {
  const folders = packages.map((name) => `/node_modules/${name}/`)
  registerHooks({
    resolve(specifier, context, next) {
      const { parentURL } = context
      const isInside = specifier.startsWith('.') && folders.some((folder) => parentURL?.includes(folder))
      if (!isInside) return next(specifier, context)
      return { url: new URL(specifier, parentURL).href, format: 'module', shortCircuit: true }
    },
  })
}
