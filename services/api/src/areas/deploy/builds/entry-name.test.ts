import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type ZipEntry, zipOf } from '../../../../test/zip.ts'
import { unpackArchive } from './unpack-archive.ts'

async function unpack(...entries: ZipEntry[]) {
  const folder = await mkdtemp(join(tmpdir(), 'names-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'archive.zip')
  await writeFile(path, zipOf(entries))
  const { signal } = new AbortController()
  const { files, warnings } = await unpackArchive(path, join(folder, 'files'), { unpackedBytesMax: 1e9, signal })
  return { names: [...files.keys()], warnings }
}

/** The systems of writers (APPNOTE 4.4.2), each with the version of the format that it wrote. */
const DOS = 0x0014
const UNIX = 0x0314
const INFO_ZIP = 0x031e
const DITTO = 0x0315
const SEVEN_ZIP = 0x003f
const MACOS = 0x1314

const COMPOSED = 'ä b.txt'.normalize('NFC')
const DECOMPOSED = 'ä b.txt'.normalize('NFD')
const JAPANESE = '日本.txt'
const CODE_PAGE_437 = Buffer.from([0x84, 0x20, 0x62, 0x2e, 0x74, 0x78, 0x74])
const UTF8 = 0x800

/** The field of Info-ZIP for the name in Unicode. */
function unicodePath(raw: Buffer, name: string): Buffer {
  const text = Buffer.from(name)
  const field = Buffer.alloc(9 + text.length)
  field.writeUInt16LE(0x7075, 0)
  field.writeUInt16LE(5 + text.length, 2)
  field.writeUInt8(1, 4)
  field.writeUInt32LE(crc32(raw), 5)
  text.copy(field, 9)
  return field
}

describe('names as tools write them', () => {
  test.each<[tool: string, entry: Omit<ZipEntry, 'content'>, name: string]>([
    ['Info-ZIP 3.0', { name: COMPOSED, flags: 0, madeBy: INFO_ZIP }, COMPOSED],
    ['Info-ZIP 3.0', { name: JAPANESE, flags: 0, madeBy: INFO_ZIP }, JAPANESE],
    [
      'Info-ZIP for Windows',
      { name: 'ascii.txt', flags: 0, madeBy: DOS, extra: unicodePath(Buffer.from('ascii.txt'), COMPOSED) },
      COMPOSED,
    ],
    ['ditto of macOS', { name: DECOMPOSED, flags: 0x8, madeBy: DITTO }, DECOMPOSED],
    ['another archiver of macOS', { name: DECOMPOSED, flags: 0, madeBy: MACOS }, DECOMPOSED],
    ['Explorer of Windows 11', { name: COMPOSED, flags: UTF8, madeBy: DOS, mode: 0 }, COMPOSED],
    ['7-Zip', { name: JAPANESE, flags: UTF8, madeBy: SEVEN_ZIP, mode: 0 }, JAPANESE],
    ['zipfile of Python', { name: COMPOSED, flags: UTF8, madeBy: UNIX }, COMPOSED],
    ['git archive', { name: COMPOSED, flags: UTF8, madeBy: 0, mode: 0 }, COMPOSED],
    ['git archive, of an executable', { name: COMPOSED, flags: UTF8, madeBy: 0x0317 }, COMPOSED],
    ['any tool', { name: 'plain.txt', flags: 0, madeBy: DOS, mode: 0 }, 'plain.txt'],
  ])('names of %s (%j) are read as %s, without a warning', async (_, entry, name) => {
    const { names, warnings } = await unpack({ ...entry, content: 'x' })
    expect([names, warnings]).toEqual([[name], []])
  })

  test.each([
    ['Explorer of Windows 7', DOS],
    ['7-Zip', SEVEN_ZIP],
    ['a program of Unix', UNIX],
  ])('names of %s in code page 437 are read as that, with a warning', async (_, madeBy) => {
    const { names, warnings } = await unpack({ name: CODE_PAGE_437, flags: 0, madeBy, mode: 0, content: 'x' })
    expect([names, warnings]).toEqual([
      [COMPOSED],
      [
        'The name "ä b.txt" is not in UTF-8 and is read in code page 437: zip with a tool that writes UTF-8 if it is wrong',
      ],
    ])
  })

  test('names that are guessed are told by the first of them and their number', async () => {
    const old = (folder: string): ZipEntry => ({ name: Buffer.concat([Buffer.from(folder), CODE_PAGE_437]), flags: 0 })
    const { names, warnings } = await unpack(old('a/'), { name: COMPOSED, flags: 0 }, old('b/'), old('c/'))
    expect(names.toSorted()).toEqual([`a/${COMPOSED}`, `b/${COMPOSED}`, `c/${COMPOSED}`, COMPOSED].toSorted())
    expect(warnings).toEqual([
      'The name "a/ä b.txt" is not in UTF-8 and is read in code page 437, and so are 2 more: zip with a tool that writes UTF-8 if it is wrong',
    ])
  })

  test('a Unicode name in a field for another name is left aside', async () => {
    const extra = unicodePath(Buffer.from('other'), 'wrong.txt')
    expect((await unpack({ name: COMPOSED, flags: 0, extra })).names).toEqual([COMPOSED])
  })

  test('a Unicode name in a field stands above what the bytes look like', async () => {
    const raw = Buffer.from(COMPOSED)
    expect((await unpack({ name: raw, flags: 0, extra: unicodePath(raw, '├ñ b.txt') })).names).toEqual(['├ñ b.txt'])
  })

  test('names that say they are UTF-8 and are not are refused', async () => {
    await expect(unpack({ name: CODE_PAGE_437, flags: UTF8 })).rejects.toThrow(/has a name that is not valid UTF-8/)
  })
})
