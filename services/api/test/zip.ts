import { crc32, deflateRawSync } from 'node:zlib'

/** An entry of an archive, and what is to be wrong with it. */
export interface ZipEntry {
  name: string | Buffer
  content?: string | Buffer
  /** Unix mode with its type; 0 for a writer that knows none. */
  mode?: number
  /** The system and version of its writer; 3 in the upper byte is Unix. */
  madeBy?: number
  /** Extra fields of the list of entries. */
  extra?: Buffer
  isStored?: boolean
  flags?: number
  method?: number
  /** What stands in the place of its compressed content. */
  data?: Buffer
  /** What the headers claim. */
  bytes?: number
  compressedBytes?: number
  crc?: number
  /** In front of its content, if not `name`. */
  localName?: string
  /** The content of an earlier entry, by its place in the list. */
  sharesWith?: number
  /** In the list of entries alone. */
  comment?: Buffer
}

export const FILE = 0o100644
export const EXECUTABLE = 0o100755
export const LINK = 0o120777
const UTF8 = 0x800

/** A zip made by hand, so that it can be wrong where a library would not let it. */
export function zipOf(entries: readonly ZipEntry[]): Buffer {
  const parts: Buffer[] = []
  const central: Buffer[] = []
  const offsets: number[] = []
  let offset = 0
  for (const options of entries) {
    const content = Buffer.from(options.content ?? '')
    const name = Buffer.isBuffer(options.name) ? options.name : Buffer.from(options.name)
    const method = options.method ?? (options.isStored ? 0 : 8)
    const data = options.data ?? (method === 8 ? deflateRawSync(content) : content)
    const flags = options.flags ?? UTF8
    const claimed = [
      options.crc ?? crc32(content),
      options.compressedBytes ?? data.length,
      options.bytes ?? content.length,
    ]
    const start = options.sharesWith === undefined ? offset : (offsets[options.sharesWith] ?? 0)
    offsets.push(start)
    const header = (signature: number, length: number, position: number, nameBytes: number): Buffer => {
      const bytes = Buffer.alloc(length)
      bytes.writeUInt32LE(signature, 0)
      bytes.writeUInt16LE(20, position)
      bytes.writeUInt16LE(flags, position + 2)
      bytes.writeUInt16LE(method, position + 4)
      for (const [n, value] of claimed.entries()) bytes.writeUInt32LE(value, position + 10 + 4 * n)
      bytes.writeUInt16LE(nameBytes, position + 22)
      return bytes
    }
    if (options.sharesWith === undefined) {
      const localName = options.localName === undefined ? name : Buffer.from(options.localName)
      const local = Buffer.concat([header(0x04034b50, 30, 4, localName.length), localName, data])
      parts.push(local)
      offset += local.length
    }
    const listed = header(0x02014b50, 46, 6, name.length)
    listed.writeUInt16LE(options.madeBy ?? (3 << 8) | 20, 4)
    listed.writeUInt16LE(options.extra?.length ?? 0, 30)
    listed.writeUInt32LE(((options.mode ?? FILE) << 16) >>> 0, 38)
    listed.writeUInt32LE(start, 42)
    listed.writeUInt16LE(options.comment?.length ?? 0, 32)
    central.push(listed, name, options.extra ?? Buffer.alloc(0), options.comment ?? Buffer.alloc(0))
  }
  const list = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(Math.min(entries.length, 0xffff), 8)
  end.writeUInt16LE(Math.min(entries.length, 0xffff), 10)
  end.writeUInt32LE(list.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, list, end])
}

/** Gives an archive without a comment one. */
export function withComment(archive: Buffer, comment: Buffer): Buffer {
  const commented = Buffer.concat([archive, comment])
  commented.writeUInt16LE(comment.length, archive.length - 2)
  return commented
}
