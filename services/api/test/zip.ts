import { crc32, deflateRawSync } from 'node:zlib'

/** An entry of an archive, and what is to be wrong with it. */
export interface ZipEntry {
  name: string | Buffer
  content?: string | Buffer
  /** Unix mode with its type; 0 for a writer that knows none. */
  mode?: number
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
  for (const given of entries) {
    const content = Buffer.from(given.content ?? '')
    const name = Buffer.isBuffer(given.name) ? given.name : Buffer.from(given.name)
    const method = given.method ?? (given.isStored ? 0 : 8)
    const data = given.data ?? (method === 8 ? deflateRawSync(content) : content)
    const flags = given.flags ?? UTF8
    const claimed = [given.crc ?? crc32(content), given.compressedBytes ?? data.length, given.bytes ?? content.length]
    const start = given.sharesWith === undefined ? offset : (offsets[given.sharesWith] ?? 0)
    offsets.push(start)
    const header = (signature: number, length: number, at: number, nameBytes: number): Buffer => {
      const bytes = Buffer.alloc(length)
      bytes.writeUInt32LE(signature, 0)
      bytes.writeUInt16LE(20, at)
      bytes.writeUInt16LE(flags, at + 2)
      bytes.writeUInt16LE(method, at + 4)
      for (const [n, value] of claimed.entries()) bytes.writeUInt32LE(value, at + 10 + 4 * n)
      bytes.writeUInt16LE(nameBytes, at + 22)
      return bytes
    }
    if (given.sharesWith === undefined) {
      const localName = given.localName === undefined ? name : Buffer.from(given.localName)
      const local = Buffer.concat([header(0x04034b50, 30, 4, localName.length), localName, data])
      parts.push(local)
      offset += local.length
    }
    const listed = header(0x02014b50, 46, 6, name.length)
    listed.writeUInt16LE((3 << 8) | 20, 4)
    listed.writeUInt32LE(((given.mode ?? FILE) << 16) >>> 0, 38)
    listed.writeUInt32LE(start, 42)
    listed.writeUInt16LE(given.comment?.length ?? 0, 32)
    central.push(listed, name, given.comment ?? Buffer.alloc(0))
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
