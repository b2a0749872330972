import type { OutputManifest } from './manifest.ts'

/** A file of an archive. Links are resolved: they appear as what they lead to. */
interface TreeFile {
  bytes: number
}

/** The files of an archive, as its reader sees them; paths from the archive's root with `/`, none of them leading out. */
export interface Tree {
  files: ReadonlyMap<string, TreeFile>
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

export interface Output {
  manifest: OutputManifest
  assets: Asset[]
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
