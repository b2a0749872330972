import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { ZipFile } from 'yazl'
import { hostileArchives } from '../../../../test/hostile-archives.ts'
import { EXECUTABLE, LINK, withComment, type ZipEntry, zipOf } from '../../../../test/zip.ts'
import { unpackArchive } from './unpack-archive.ts'

const outside = join(tmpdir(), `platform-outside-${process.pid}`)
afterAll(() => rm(outside, { force: true }))

async function unpack(
  archive: Buffer,
  { unpackedBytesMax = 1_073_741_824, signal = new AbortController().signal } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'unpack-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'archive.zip')
  await writeFile(path, archive)
  const unpacked = await unpackArchive(path, join(folder, 'files'), { unpackedBytesMax, signal })
  const read = async (name: string) => (await unpacked.read(name)).toString()
  return { ...unpacked, folder, names: [...unpacked.files.keys()].toSorted(), text: read }
}
const unpackEntries = (...entries: ZipEntry[]) => unpack(zipOf(entries))

describe('refuses, with a sentence for the author', () => {
  test.each(Object.entries(hostileArchives))('%s', async (_, { archive, sentence }) => {
    await expect(unpack(archive())).rejects.toMatchObject({
      name: 'UnusableOutput',
      message: expect.stringMatching(sentence),
    })
  })
})

test('files come out as they went in, with whether they are executable', async () => {
  const { names, files, text, folder } = await unpackEntries(
    { name: 'a/b/c.txt', content: 'hello' },
    { name: './run.sh', content: '#!/bin/sh', mode: EXECUTABLE },
    { name: 'empty', content: '' },
    { name: 'stored', content: 'as it is', isStored: true },
    { name: 'ünïcödé/日本', content: 'names' },
  )
  expect(names).toEqual(['a/b/c.txt', 'empty', 'run.sh', 'stored', 'ünïcödé/日本'].toSorted())
  expect(await Promise.all(['a/b/c.txt', 'empty', 'stored', 'ünïcödé/日本'].map(text))).toEqual([
    'hello',
    '',
    'as it is',
    'names',
  ])
  expect(files.get('run.sh')?.isExecutable).toBe(true)
  expect(files.get('empty')).toMatchObject({ bytes: 0, isExecutable: false })
  expect((await stat(join(folder, 'files/run.sh'))).mode & 0o777).toBe(0o700)
  expect((await stat(join(folder, 'files/stored'))).mode & 0o777).toBe(0o600)
})

test('an archive of a common tool is read, streamed lengths included', async () => {
  const zip = new ZipFile()
  zip.addBuffer(Buffer.from('one'), 'dir/one.txt', { mode: 0o100755 })
  zip.addEmptyDirectory('dir/empty')
  zip.addReadStreamLazy('two.txt', (done) => done(null, Readable.from([Buffer.from('streamed')])))
  zip.end()
  const { names, text } = await unpack(await buffer(zip.outputStream as AsyncIterable<Buffer>))
  expect([names, await text('dir/one.txt')]).toEqual([['dir/one.txt', 'two.txt'], 'one'])
})

describe('an archive', () => {
  const files: ZipEntry[] = [
    { name: 'index.html', content: 'page' },
    { name: 'large.bin', content: Buffer.alloc(400_000, 'large'), isStored: true },
  ]
  /** Adds the records of Zip64, which then say where the list is. */
  function asZip64(archive: Buffer): Buffer {
    const end = Buffer.from(archive.subarray(-22))
    const record = Buffer.alloc(56)
    record.writeUInt32LE(0x06064b50, 0)
    record.writeBigUInt64LE(44n, 4)
    for (const at of [24, 32]) record.writeBigUInt64LE(BigInt(end.readUInt16LE(10)), at)
    record.writeBigUInt64LE(BigInt(end.readUInt32LE(12)), 40)
    record.writeBigUInt64LE(BigInt(end.readUInt32LE(16)), 48)
    const locator = Buffer.alloc(20)
    locator.writeUInt32LE(0x07064b50, 0)
    locator.writeBigUInt64LE(BigInt(archive.length - 22), 8)
    locator.writeUInt32LE(1, 16)
    end.fill(0xff, 8, 20)
    return Buffer.concat([archive.subarray(0, -22), record, locator, end])
  }

  test.each([
    ['10 bytes', zipOf(files), Buffer.from('#!/bin/sh\n')],
    ['a megabyte', zipOf(files), Buffer.alloc(1_048_576, 'MZ')],
    ['10 bytes, with Zip64', asZip64(zipOf(files)), Buffer.from('#!/bin/sh\n')],
    ['another archive', zipOf(files), zipOf([{ name: 'first', content: 'first' }])],
  ])('behind %s is read, with a warning, as Info-ZIP and Python read it', async (_, archive, before) => {
    const { names, text, warnings } = await unpack(Buffer.concat([before, archive]))
    expect([names, await text('index.html')]).toEqual([['index.html', 'large.bin'], 'page'])
    expect(await text('large.bin')).toBe('large'.repeat(80_000))
    expect(warnings).toEqual([
      `The file begins with ${before.length} bytes that are not of the archive; they are left out`,
    ])
  })

  test.each([
    ['without a comment', zipOf(files)],
    ['with a comment', withComment(zipOf(files), Buffer.from('Made by hand. PK'))],
    ['with the longest comment', withComment(zipOf(files), Buffer.alloc(65_535, 'x'))],
    ['of Zip64', asZip64(zipOf(files))],
    ['that holds an archive as it is', zipOf([...files, { name: 'in.zip', content: zipOf(files), isStored: true }])],
  ])('%s is read without a warning', async (_, archive) => {
    const { names, warnings } = await unpack(archive)
    expect([names.includes('index.html'), warnings]).toEqual([true, []])
  })
})

describe('links', () => {
  test('to files and folders appear as what they lead to, through other links as well', async () => {
    const { names, text, warnings, folder } = await unpackEntries(
      { name: 'fn/__fallback.func/index.js', content: 'code' },
      { name: 'fn/__fallback.func/lib/a.js', content: 'lib' },
      { name: 'fn/index.func', content: './__fallback.func', mode: LINK },
      { name: 'fn/deep/page.func', content: '../index.func', mode: LINK },
      { name: 'file', content: 'fn/deep/page.func/lib/a.js', mode: LINK },
      { name: 'fn/__fallback.func/again', content: 'lib/../lib', mode: LINK },
    )
    expect(names).toEqual([
      'file',
      ...['__fallback.func', 'deep/page.func', 'index.func'].flatMap((text) =>
        ['again/a.js', 'index.js', 'lib/a.js'].map((name) => `fn/${text}/${name}`),
      ),
    ])
    expect(await Promise.all(['file', 'fn/deep/page.func/index.js', 'fn/index.func/again/a.js'].map(text))).toEqual([
      'lib',
      'code',
      'lib',
    ])
    expect(warnings).toEqual([])
    // No link is created on disk.
    expect(
      (await readdir(join(folder, 'files'), { recursive: true, withFileTypes: true })).filter((each) =>
        each.isSymbolicLink(),
      ),
    ).toEqual([])
  })

  test('out of the archive, in a circle, to nothing and to a folder that holds them are left out with a warning', async () => {
    await writeFile(outside, 'secret')
    const { names, warnings } = await unpackEntries(
      { name: 'index.html', content: 'x' },
      { name: 'absolute', content: outside, mode: LINK },
      { name: 'dir/out', content: '../../etc/passwd', mode: LINK },
      { name: 'nowhere', content: 'missing', mode: LINK },
      { name: 'one', content: 'two', mode: LINK },
      { name: 'two', content: 'one', mode: LINK },
      { name: 'self', content: 'self', mode: LINK },
      { name: 'dir/up', content: '..', mode: LINK },
      { name: 'dir/here', content: '.', mode: LINK },
      { name: 'escape', content: 'dir/../../x', mode: LINK },
      { name: 'via', content: 'absolute/x', mode: LINK },
      { name: 'null', content: 'a\0b', mode: LINK },
    )
    expect(names).toEqual(['index.html'])
    expect(warnings.toSorted()).toEqual([
      'The link "absolute" leads out of the archive and was left out',
      'The link "dir/here" leads to a folder that holds it and was left out',
      'The link "dir/out" leads out of the archive and was left out',
      'The link "dir/up" leads to a folder that holds it and was left out',
      'The link "escape" leads out of the archive and was left out',
      'The link "nowhere" leads to nothing and was left out',
      'The link "null" leads out of the archive and was left out',
      'The link "one" leads in a circle and was left out',
      'The link "self" leads in a circle and was left out',
      'The link "two" leads in a circle and was left out',
      'The link "via" leads out of the archive and was left out',
    ])
    expect(await readFile(outside, 'utf8')).toBe('secret')
  })
})

test('what it is stopped with is thrown, and nothing is open afterwards', async () => {
  const stop = new AbortController()
  stop.abort(new Error('stopped'))
  const archive = zipOf([{ name: 'a', content: 'x' }])
  await expect(unpack(archive, { signal: stop.signal })).rejects.toThrow('stopped')
})
