import { randomBytes } from 'node:crypto'
import { FILE, LINK, type ZipEntry, withComment, zipOf } from './zip.ts'

const index: ZipEntry = { name: 'index.html', content: '<h1>hello</h1>' }
const beside = (...entries: ZipEntry[]): Buffer => zipOf([index, ...entries])
const CP437 = 0

/** A zip whose list of entries is cut off, with and without its end. */
const whole = beside({ name: 'a.bin', content: randomBytes(5_000) })

/** A file whose deflated bytes go on longer, or end sooner, than its headers say. */
const lying = (bytes: number): Buffer => beside({ name: 'lying.txt', content: 'x'.repeat(1_000), bytes })

/** Archives that nobody should unpack, by what they try, and the sentence that their author is told. */
export const hostileArchives: Record<string, { archive: () => Buffer; sentence: RegExp }> = {
  'a path that leads out': {
    archive: () => beside({ name: 'a/../../evil.txt' }),
    sentence: /entry "a\/\.\.\/\.\.\/evil\.txt" leads out of the archive/,
  },
  'a path that leads out and back in': {
    archive: () => beside({ name: 'a/../b' }),
    sentence: /"a\/\.\.\/b" leads out/,
  },
  'an absolute path': {
    archive: () => beside({ name: '/etc/passwd' }),
    sentence: /"\/etc\/passwd" has an absolute path/,
  },
  'a drive letter': { archive: () => beside({ name: 'C:evil.txt' }), sentence: /"C:evil\.txt" has an absolute path/ },
  'a backslash': { archive: () => beside({ name: '..\\evil.txt' }), sentence: /has a backslash in its name/ },
  'a NUL in a name': {
    archive: () => beside({ name: 'a.txt\0.png' }),
    sentence: /"a\.txt\\u0000\.png" has a control character/,
  },
  'a newline in a name': { archive: () => beside({ name: 'a\nb' }), sentence: /"a\\nb" has a control character/ },
  'a name that is no UTF-8': {
    archive: () => beside({ name: Buffer.from([0x61, 0xff, 0x62]) }),
    sentence: /"aÿb" has a name that is not valid UTF-8/,
  },
  'overlong UTF-8 for ../': {
    archive: () => beside({ name: Buffer.from([0xc0, 0xae, 0xc0, 0xae, 0xc0, 0xaf, 0x61]) }),
    sentence: /has a name that is not valid UTF-8/,
  },
  'a name of nothing': {
    archive: () => beside({ name: './', content: 'x', mode: FILE }),
    sentence: /is named as a folder and marked as a file/,
  },
  'a name that is too long': {
    archive: () => beside({ name: 'a'.repeat(300) }),
    sentence: /has a name of more than 255 bytes/,
  },
  'a path that is too long': {
    archive: () => beside({ name: Array.from({ length: 20 }, () => 'a'.repeat(120)).join('/') }),
    sentence: /has a path of more than 2048 bytes/,
  },
  'folders too deep': {
    archive: () => beside({ name: 'a/'.repeat(64) + 'b' }),
    sentence: /lies more than 64 folders deep/,
  },
  'the same entry twice': {
    archive: () => beside({ name: 'a' }, { name: './/a' }),
    sentence: /entry "a" is there twice/,
  },
  'names that differ in case': {
    archive: () => beside({ name: 'Readme.md' }, { name: 'README.md' }),
    sentence: /"README\.md" differs from "Readme\.md" in upper and lower case/,
  },
  'folders that differ in case': {
    archive: () => beside({ name: 'Blog/a' }, { name: 'blog/b' }),
    sentence: /"blog" differs from "Blog"/,
  },
  'names that differ in how an accent is spelled': {
    archive: () => beside({ name: 'caf\u00e9' }, { name: 'cafe\u0301' }),
    sentence: /differs from "café" in upper and lower case or in the spelling of accents/,
  },
  'a comment that holds another end of the archive': {
    archive: () => withComment(beside({ name: 'a' }), Buffer.from('PK\x05\x06'.padEnd(22, '\0'), 'latin1')),
    sentence: /The comment of the archive holds the record of another end of an archive/,
  },
  'a comment that begins as another end of the archive does': {
    archive: () => withComment(beside({ name: 'a' }), Buffer.from(`PK\x05\x06${'?'.repeat(30)}`, 'latin1')),
    sentence: /The comment of the archive holds the record of another end of an archive/,
  },
  'bytes after its end': {
    archive: () => Buffer.concat([beside({ name: 'a' }), Buffer.alloc(7)]),
    sentence: /The file goes on for 7 bytes after the end of the archive/,
  },
  'two lists of entries': {
    archive: () => {
      const inner = beside({ name: 'a' })
      // In front of it, a header of a list stands where its own offset would lead without the bytes in front.
      const named = inner.readUInt32LE(inner.length - 6)
      const before = Buffer.alloc(named + 46)
      before.writeUInt32LE(0x02014b50, named)
      return Buffer.concat([before, inner])
    },
    sentence: /The archive has two lists of entries, at the bytes \d+ and \d+/,
  },
  'a file that is a folder': {
    archive: () => beside({ name: 'a', content: 'x' }, { name: 'a/b', content: 'y' }),
    sentence: /"a" is there as a file and as a folder/,
  },
  'a folder that is a file': {
    archive: () => beside({ name: 'a/b', content: 'y' }, { name: 'a', content: 'x' }),
    sentence: /"a" is there as a folder and as a file/,
  },
  'a folder with content': {
    archive: () => beside({ name: 'a/', content: 'x', mode: 0 }),
    sentence: /"a\/" is a folder with content/,
  },
  'a file below a link': {
    archive: () => beside({ name: 'a', content: '/tmp', mode: LINK }, { name: 'a/evil', content: 'x' }),
    sentence: /"a" is a link, and other entries lie below it/,
  },
  'a file below a link that comes later': {
    archive: () => beside({ name: 'a/evil', content: 'x' }, { name: 'a', content: '/tmp', mode: LINK }),
    sentence: /"a" is there as a folder and as a link/,
  },
  'a link with an endless target': {
    archive: () => beside({ name: 'a', content: 'x/'.repeat(4_000), mode: LINK }),
    sentence: /"a" is a link with too long a target/,
  },
  'a device': {
    archive: () => beside({ name: 'null', mode: 0o020666 }),
    sentence: /"null" is neither a file nor a folder nor a link/,
  },
  'a pipe': { archive: () => beside({ name: 'pipe', mode: 0o010644 }), sentence: /"pipe" is neither a file/ },
  'a socket': { archive: () => beside({ name: 'socket', mode: 0o140755 }), sentence: /"socket" is neither a file/ },
  'more content than it says': {
    archive: () => lying(10),
    sentence: /"lying\.txt" cannot be unpacked: too many bytes/,
  },
  'less content than it says': {
    archive: () => lying(2_000),
    sentence: /"lying\.txt" cannot be unpacked: not enough bytes/,
  },
  'stored content of another length than it says': {
    archive: () => beside({ name: 'stored', content: 'x'.repeat(10), isStored: true, bytes: 9 }),
    sentence: /compressed\/uncompressed size mismatch/,
  },
  'a wrong checksum': {
    archive: () => beside({ name: 'a', content: 'x', crc: 1 }),
    sentence: /"a" does not match its checksum/,
  },
  'content that is no deflate': {
    archive: () => beside({ name: 'a', content: 'x'.repeat(50), data: Buffer.alloc(50, 0xff) }),
    sentence: /"a" cannot be unpacked: /,
  },
  'entries that share their content': {
    archive: () =>
      beside({ name: 'a', content: randomBytes(2_000) }, { name: 'b', localName: 'a', sharesWith: 1, content: 'x' }),
    sentence: /"b" has two names/,
  },
  'an entry inside another': {
    archive() {
      const inner = zipOf([{ name: 'b', content: 'inner' }])
      const outer = zipOf([
        index,
        { name: 'a', content: inner, isStored: true },
        { name: 'b', content: 'inner', sharesWith: 0 },
      ])
      // The list's entry for b points into a's content, where a proper header of b stands.
      const position = outer.lastIndexOf(Buffer.from([0x50, 0x4b, 1, 2]))
      outer.writeUInt32LE(outer.indexOf(inner), position + 42)
      return outer
    },
    sentence: /"b" overlaps "a"/,
  },
  'another name in front of its content': {
    archive: () => beside({ name: 'a', localName: 'b', content: 'x' }),
    sentence: /"a" has two names/,
  },
  'content beyond the end of the file': {
    archive: () => beside({ name: 'a', content: 'x', compressedBytes: 100_000, bytes: 100_000 }),
    sentence: /overflows file bounds/,
  },
  'a list that goes on behind its number of entries': {
    archive() {
      const archive = beside({ name: 'a' }, { name: 'b' })
      archive.writeUInt16LE(2, archive.length - 14)
      archive.writeUInt16LE(2, archive.length - 12)
      return archive
    },
    sentence: /says that it has 2 entries, and lists more/,
  },
  'a list that is cut off': { archive: () => whole.subarray(0, -40), sentence: /cannot be read as a zip file/ },
  'content that is cut off': {
    archive: () => Buffer.concat([whole.subarray(0, 2_000), whole.subarray(4_000)]),
    sentence: /./,
  },
  'no zip at all': { archive: () => randomBytes(10_000), sentence: /cannot be read as a zip file/ },
  'nothing at all': { archive: () => Buffer.from('x'), sentence: /cannot be read as a zip file/ },
  'an encrypted entry': {
    archive: () => beside({ name: 'a', content: 'x', flags: 0x801 }),
    sentence: /"a" is encrypted/,
  },
  'a compression that is not deflate': {
    archive: () => beside({ name: 'a', content: 'x', method: 14 }),
    sentence: /"a" is compressed by method 14; use deflate/,
  },
  'a bomb': {
    archive: () => beside({ name: 'bomb', content: Buffer.alloc(20_000_000) }),
    sentence: /"bomb" unpacks to more than 200 times its size/,
  },
  'a bomb of many small files': {
    archive: () => zipOf(Array.from({ length: 100 }, (_, n) => ({ name: `${n}`, content: Buffer.alloc(500_000) }))),
    sentence: /The archive unpacks to more than 200 times its size/,
  },
  'a bomb that says it is small': {
    archive: () => beside({ name: 'bomb', content: Buffer.alloc(20_000_000), bytes: 1_000 }),
    sentence: /"bomb" cannot be unpacked: too many bytes/,
  },
  'a file that is too large': {
    archive: () => beside({ name: 'large', content: '', bytes: 200_000_000, compressedBytes: 150_000_000 }),
    sentence: /"large" is larger than 100 MiB/,
  },
  'more in all than the plan allows': {
    archive: () =>
      zipOf(Array.from({ length: 11 }, (_, n) => ({ name: `${n}`, bytes: 100_000_000, compressedBytes: 90_000_000 }))),
    sentence: /The archive unpacks to more than 1024 MiB/,
  },
  '60,000 entries': {
    archive: () => zipOf(Array.from({ length: 60_000 }, (_, n) => ({ name: `${n}`, isStored: true }))),
    sentence: /The archive has 60000 entries; 50000 are allowed/,
  },
  'links that multiply files': {
    archive: () =>
      zipOf([
        ...Array.from({ length: 10 }, (_, n) => ({ name: `0/${n}`, content: 'x' })),
        ...Array.from({ length: 6 }, (_, level) =>
          Array.from({ length: 10 }, (_, n) => ({ name: `${level + 1}/${n}`, content: `../${level}`, mode: LINK })),
        ).flat(),
      ]),
    sentence: /becomes too large once its links are followed/,
  },
  'links that multiply folders without a file': {
    archive: () =>
      zipOf([
        index,
        ...Array.from({ length: 60 }, (_, n) =>
          ['a', 'b'].map((name) => ({ name: `${n}/${name}`, content: `../${n + 1}`, mode: LINK })),
        ).flat(),
        { name: '60/', mode: 0o040755 },
      ]),
    sentence: /becomes too large once its links are followed/,
  },
  'links by endless ways': {
    archive: () =>
      zipOf([
        { name: 'a/index.html', content: 'x' },
        ...Array.from({ length: 400 }, (_, n) => ({
          name: `${n}`,
          content: `${'a/../'.repeat(800)}${n + 1}`,
          mode: LINK,
        })),
      ]),
    sentence: /becomes too large once its links are followed/,
  },
  'endless comments': {
    archive: () => zipOf(Array.from({ length: 520 }, (_, n) => ({ name: `${n}`, comment: Buffer.alloc(65_000) }))),
    sentence: /names and comments of the archive's entries are longer than 32 MiB/,
  },
  'a name of another alphabet that hides a separator': {
    archive: () => beside({ name: Buffer.from('..\\a'), flags: CP437 }),
    sentence: /has a backslash/,
  },
}
