import { filesSource, type PackSource } from '@platform/sdk/pack'

/** What somebody gave to deploy. */
export type Given =
  | { kind: 'folder'; name: string; source: PackSource }
  /** Sent as it is: nothing in it is left out. */
  | { kind: 'zip'; name: string; file: File }

const isZip = (file: File): boolean => file.name.toLowerCase().endsWith('.zip')

/** From an input for folders: its paths begin with the folder's own name. Throws an Error that says what is wrong with it. */
export function chosenFolder(files: readonly File[]): Given {
  const name = files[0]?.webkitRelativePath.split('/', 1)[0]
  if (name === undefined) throw new Error('The folder is empty')
  const source = filesSource(files.map((file) => ({ path: file.webkitRelativePath.slice(name.length + 1), file })))
  return { kind: 'folder', name, source }
}

export const chosenZip = (file: File): Given => ({ kind: 'zip', name: file.name, file })

/**
 * From a drop. Has to be called within the event, since a browser forgets afterwards what was dropped. Resolves when it is known what that
 * is; rejects with an Error that says what is wrong with it.
 */
export async function droppedThings(transfer: DataTransfer): Promise<Given> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null)
  const [first] = entries
  if (!first) throw new Error('Drop a folder, files or a zip archive')
  if (entries.length > 1 || first.isFile) {
    if (entries.length === 1) {
      const file = await fileOf(first as FileSystemFileEntry)
      if (isZip(file)) return chosenZip(file)
    }
    const name = entries.length === 1 ? first.name : `${first.name} and ${entries.length - 1} more`
    return { kind: 'folder', name, source: entrySource(() => Promise.resolve(entries)) }
  }
  const folder = first as FileSystemDirectoryEntry
  return { kind: 'folder', name: folder.name, source: entrySource(() => entriesOf(folder)) }
}

const fileOf = (entry: FileSystemFileEntry): Promise<File> =>
  new Promise((resolve, reject) =>
    entry.file(resolve, (error) => reject(new Error(`${entry.fullPath} cannot be read: ${error.message}`))),
  )

/** Browsers give 100 at a time, and none at the end. */
async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader()
  const entries: FileSystemEntry[] = []
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, (error) => reject(new Error(`${folder.fullPath} cannot be read: ${error.message}`))),
    )
    if (some.length === 0) return entries
    entries.push(...some)
  }
}

/** A source that looks into a folder when it is asked for it, so what is left out, such as node_modules, is never read. */
function entrySource(top: () => Promise<FileSystemEntry[]>): PackSource {
  const folders = new Map<string, FileSystemDirectoryEntry>()
  return {
    async list(folder) {
      const known = folders.get(folder)
      const entries = folder === '' ? await top() : known ? await entriesOf(known) : []
      return Promise.all(
        entries.map(async (entry) => {
          const path = folder === '' ? entry.name : `${folder}/${entry.name}`
          if (entry.isDirectory) {
            folders.set(path, entry as FileSystemDirectoryEntry)
            return { kind: 'folder', path } as const
          }
          const file = await fileOf(entry as FileSystemFileEntry)
          const [listed] = await filesSource([{ path: entry.name, file }]).list('')
          if (listed?.kind !== 'file') throw new Error(`${path} cannot be read`)
          return { ...listed, path }
        }),
      )
    },
  }
}
