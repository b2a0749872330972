import type { ManagerKind } from './package-managers.ts'

/** What each package manager prints if a lockfile does not fit package.json. */
const OUTDATED: Record<ManagerKind, RegExp> = {
  npm: /npm ci` can only install packages when your package\.json and package-lock\.json|lock file's .* does not satisfy/,
  pnpm: /ERR_PNPM_OUTDATED_LOCKFILE|ERR_PNPM_LOCKFILE_CONFIG_MISMATCH/,
  yarn: /Your lockfile needs to be updated/,
  berry: /YN0028/,
}
const MANY = 20

/** Explains why an installation failed: the lockfile is not that of package.json. undefined: for another reason. */
export function explainInstallFailure(kind: ManagerKind, lockfile: string, printed: string): string | undefined {
  if (!OUTDATED[kind].test(printed)) return undefined
  const name = kind === 'berry' ? 'yarn' : kind
  return `${lockfile} and package.json do not fit each other: run \`${name} install\`, and upload both`
}

/** A sentence on packages whose install scripts pnpm did not run, with the line that allows them. */
export function warnOfIgnoredBuilds(packages: readonly string[], pnpmMajor: number): string {
  const names = [...new Set(packages.map((each) => each.replace(/(?<=.)@[^@/]*$/, '')))].slice(0, MANY)
  const line =
    pnpmMajor >= 11
      ? `allowBuilds: { ${names.map((name) => `${JSON.stringify(name)}: true`).join(', ')} } in pnpm-workspace.yaml`
      : `"pnpm": { "onlyBuiltDependencies": ${JSON.stringify(names)} } in package.json`
  return `pnpm did not run the install scripts of ${packages.slice(0, MANY).join(', ')}. If they are needed: ${line}.`
}
