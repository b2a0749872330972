import type { Tree } from './output.ts'

/** A tree of files in memory, for tests: content by path. */
export function treeOf(files: Record<string, string>): Tree {
  const contents = new Map(Object.entries(files).map(([path, content]) => [path, Buffer.from(content)]))
  return {
    files: new Map([...contents].map(([path, content]) => [path, { bytes: content.length }])),
    read(path) {
      const content = contents.get(path)
      return content === undefined ? Promise.reject(new Error(`No ${path}`)) : Promise.resolve(content)
    },
  }
}
