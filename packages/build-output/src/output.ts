import type { OutputManifest } from './manifest.ts'
import type { StartScript } from './start-script.ts'

/** A file of an archive. Links are resolved to their targets. */
interface TreeFile {
  bytes: number
  /** Location of the content: the same for all paths that link to one file. */
  source?: string
  isExecutable?: boolean
}

/** The files of an archive as its reader sees them; paths are relative to the archive's root, with `/`, and never lead outside. */
export interface Tree {
  files: ReadonlyMap<string, TreeFile>
  /** Links that a Node server keeps, by path, with their targets as written. They stay below the tree's root. */
  links?: ReadonlyMap<string, string>
  /** Next.js' standalone server, if the build names it: its folder, '' or with a trailing slash, and the build's folder in it. */
  nextServer?: { below: string; distDir: string }
  /**
   * For a Node server: the folder whose files are its, where it shares packages with others; '' or with a trailing slash. Default: its
   * own.
   */
  serverFolder?: string
  /** Reads the content of a manifest. Throws for a path that is not in `files`. */
  read(path: string): Promise<Buffer>
}

/** A served file. */
export interface Asset {
  /** Below the site's root, without a leading slash, as routes name it. */
  path: string
  /** Path in the tree. */
  source: string
  contentType: string
}

/** How the entry of a Function is called; `handler`: determined by its module's exports. */
type FunctionKind = 'handler' | 'edge' | 'worker' | 'server'

/** Code that answers requests. */
export interface OutputFunction {
  /** In the output, without `.func`; for a worker or server its entry. */
  path: string
  kind: FunctionKind
  /** The module to import, below the Function's folder. Absent: `command` starts it. */
  handler?: string
  /** A start script. */
  command?: string
  /** Where a server runs, below the Function's folder. Default: that folder. */
  workingFolder?: string
  /** True if its exports are web handlers, whatever they look like. */
  isWeb: boolean
  /** True if its request and response have Vercel's helpers. */
  hasHelpers: boolean
  /** As requested by the output. */
  memoryMb?: number
  /** Variables that the output sets for it. */
  environment: Record<string, string>
  /** Its files: path in the tree by path below the Function's folder. */
  files: ReadonlyMap<string, string>
  /** Links among its files, by path below its folder: package managers build node_modules from them. */
  links?: ReadonlyMap<string, string>
}

export interface Output {
  manifest: OutputManifest
  assets: Asset[]
  functions: OutputFunction[]
  /** Pages to show for Prerender Functions before their first call: location by path in the manifest. */
  fallbacks: { path: string; source: string }[]
  /** The script of package.json that starts a server. */
  start?: StartScript
  /** Sentences for the build log: how it is started. */
  notes: string[]
  /** Sentences for the build log: what was left out or ignored, and why. */
  warnings: string[]
}

/** The upload cannot be deployed; the message is a sentence for its author that names the entry. */
export class UnusableOutput extends Error {
  override name = 'UnusableOutput'
}

/** True if a file may be served at a path: no segment begins with a dot, except `.well-known`. */
export function isServable(path: string): boolean {
  return path.split('/').every((segment) => !segment.startsWith('.') || segment === '.well-known')
}
