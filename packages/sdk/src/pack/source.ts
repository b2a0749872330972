/** A file of a folder that is packed. Paths are relative to that folder, with forward slashes. */
export interface PackFile {
  kind: 'file'
  path: string
  bytes: number
  isExecutable: boolean
  /** Its content, from the beginning each time. A piece is good until the next is asked for. */
  open(): AsyncIterable<Uint8Array>
}

export interface PackLink {
  kind: 'link'
  path: string
  /** As it is written, with forward slashes. */
  target: string
}

/** other: a socket, a device, or what cannot be looked at. */
export type PackEntry = PackFile | PackLink | { kind: 'folder' | 'other'; path: string }

/** A folder to pack: of a file system, or dropped into a browser. */
export interface PackSource {
  /** What is directly in a folder, in any order; '' is the top. */
  list(folder: string): Promise<PackEntry[]>
  /** Deflates the whole content of a small file (RFC 1951), where the machine does it faster than JavaScript. */
  deflate?: ((content: Uint8Array) => Uint8Array) | undefined
}

export interface DroppedFile {
  /** Relative to the folder that is packed, with forward slashes. */
  path: string
  file: Blob
  /** Browsers do not tell; false unless said. */
  isExecutable?: boolean
}

/** A path below a folder; '' is the top. */
export const pathIn = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)
export const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')))
export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** A source of files that a browser has. Throws TypeError for a path that is not relative, or that is there twice. */
export function filesSource(files: Iterable<DroppedFile>): PackSource {
  const folders = new Map<string, Map<string, PackEntry>>([['', new Map()]])
  const put = (entry: PackEntry): void => {
    const siblings = folders.get(folderOf(entry.path))
    const known = siblings?.get(entry.path)
    if (known !== undefined && (known.kind !== 'folder' || entry.kind !== 'folder'))
      throw new TypeError(`${JSON.stringify(entry.path)} is there twice`)
    siblings?.set(entry.path, entry)
    if (entry.kind === 'folder' && known === undefined) folders.set(entry.path, new Map())
  }
  for (const { path, file, isExecutable = false } of files) {
    const segments = path.split('/')
    if (segments.some((segment) => ['', '.', '..'].includes(segment)))
      throw new TypeError(`${JSON.stringify(path)} is not a relative path`)
    for (let n = 1; n < segments.length; n++) put({ kind: 'folder', path: segments.slice(0, n).join('/') })
    put({ kind: 'file', path, bytes: file.size, isExecutable, open: () => contentOf(file) })
  }
  return { list: (folder) => Promise.resolve([...(folders.get(folder)?.values() ?? [])]) }
}

/** Not every browser can iterate over a stream. */
async function* contentOf(file: Blob): AsyncGenerator<Uint8Array> {
  const reader = file.stream().getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel()
  }
}

/** A text file, whole: for the few small ones that say how a folder is read. */
export async function readText(file: PackFile): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of file.open()) text += decoder.decode(chunk, { stream: true })
  return text + decoder.decode()
}
