import { mimes } from 'mrmime'

const TEXT = /^text\/|^application\/(?:javascript|json|manifest\+json|ld\+json|xml)$|\+xml$/

/** Types that mrmime does not know, by extension: as registered with IANA, else as browsers and other servers write them. */
const MORE_TYPES: Readonly<Record<string, string>> = {
  '7z': 'application/x-7z-compressed',
  apk: 'application/vnd.android.package-archive',
  crx: 'application/x-chrome-extension',
  cts: 'text/plain',
  cur: 'image/x-icon',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  eot: 'application/vnd.ms-fontobject',
  flac: 'audio/flac',
  ico: 'image/vnd.microsoft.icon',
  ipynb: 'application/x-ipynb+json',
  m3u8: 'application/vnd.apple.mpegurl',
  m4v: 'video/x-m4v',
  // TypeScript, not the video of camcorders.
  mts: 'text/plain',
  pbf: 'application/x-protobuf',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  tgz: 'application/gzip',
  // TypeScript, unless it is a segment of a stream.
  ts: 'text/plain',
  tsx: 'text/plain',
  usdz: 'model/vnd.usdz+zip',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  xpi: 'application/x-xpinstall',
}
const TYPES = new Map(Object.entries({ ...mimes, ...MORE_TYPES }))
const SEGMENT = 'video/mp2t'

const extensionOf = (path: string): string => /\.([^./]*)$/.exec(path)?.[1]?.toLowerCase() ?? ''
const folderOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf('/'), 0))

/** Returns a file's Content-Type by its name, with `charset=utf-8` for text; `application/octet-stream` if unknown. */
export function contentTypeOf(path: string): string {
  const extension = extensionOf(path)
  const type = TYPES.get(extension) ?? 'application/octet-stream'
  return TEXT.test(type) ? `${type}; charset=utf-8` : type
}

/**
 * Returns what tells the Content-Type of the files of a site: as `contentTypeOf`, but a `.ts` with an HLS playlist in its folder, or in
 * one above, is a segment of video.
 *
 * paths: of all files, below the site's root.
 */
export function openContentTypes(paths: Iterable<string>): (path: string) => string {
  const folders = new Set<string>()
  for (const path of paths) if (extensionOf(path) === 'm3u8') folders.add(folderOf(path))
  const hasPlaylist = (path: string): boolean => {
    for (let folder = folderOf(path); ; folder = folderOf(folder)) {
      if (folders.has(folder)) return true
      if (folder === '') return false
    }
  }
  return (path) => (folders.size > 0 && extensionOf(path) === 'ts' && hasPlaylist(path) ? SEGMENT : contentTypeOf(path))
}
