import type { OutputManifest } from './manifest.ts'

/** A file of an archive. Links are resolved: they appear as what they lead to. */
interface TreeFile {
  bytes: number
  /** Where the content lies: the same for all paths that links lead to one file by. */
  source?: string
  isExecutable?: boolean
}

/** The files of an archive, as its reader sees them; paths from the archive's root with `/`, none of them leading out. */
export interface Tree {
  files: ReadonlyMap<string, TreeFile>
  /** Links that a Node server keeps as links, by path, with their targets as they are written. They stay below the tree's root. */
  links?: ReadonlyMap<string, string>
  /** Where Next.js' standalone server is, if a build says so: '' or a folder with a slash at its end, and what holds its build there. */
  nextServer?: { below: string; distDir: string }
  /** The content of a manifest. Throws for a path that is not in `files`. */
  read(path: string): Promise<Buffer>
}

/** A file that is served. */
export interface Asset {
  /** Below the site's root, without a leading slash: what routes name. */
  path: string
  /** In the tree. */
  source: string
  contentType: string
}

/** How the entry of a Function is called; `handler`: what its module exports decides. */
type FunctionKind = 'handler' | 'edge' | 'worker' | 'server'

/** Code that answers requests. */
export interface OutputFunction {
  /** In the output, without `.func`; of a worker or server its entry. */
  path: string
  kind: FunctionKind
  /** Below the Function's folder: the module to import. Absent: `command` starts it. */
  handler?: string
  /** A start script. */
  command?: string
  /** Its exports are web handlers, whatever they look like. */
  isWeb: boolean
  /** Its request and response have Vercel's helpers. */
  hasHelpers: boolean
  /** What the output asks for. */
  memoryMb?: number
  /** Variables that the output sets for it. */
  environment: Record<string, string>
  /** Its files: where each lies in the tree, by the path below the Function's folder. */
  files: ReadonlyMap<string, string>
  /** Links among its files, by the path below its folder: package managers make node_modules of them. */
  links?: ReadonlyMap<string, string>
}

export interface Output {
  manifest: OutputManifest
  assets: Asset[]
  functions: OutputFunction[]
  /** What is shown of Prerender Functions before they were called: where each lies, by the path that the manifest names it by. */
  fallbacks: { path: string; source: string }[]
  /** Sentences for the build log: what was left out or ignored, and why. */
  warnings: string[]
}

/** What was uploaded cannot be deployed; the message is a sentence for its author that names the entry. */
export class UnusableOutput extends Error {
  override name = 'UnusableOutput'
}

/** Whether a file may be served at a path: no segment begins with a dot, `.well-known` apart. */
export function isServable(path: string): boolean {
  return path.split('/').every((segment) => !segment.startsWith('.') || segment === '.well-known')
}
