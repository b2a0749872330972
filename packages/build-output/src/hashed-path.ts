/** Folders in which build tools put only files whose URL changes with their content. */
const HASHED_FOLDER = /(?:^|\/)(?:_app\/immutable|_next\/static|_astro|_nuxt)\//
const ASSETS_FOLDER = /(?:^|\/)(?:assets|_assets|static|build|chunks|_build)\//
const BUILD_MADE = /\.(?:js|mjs|css|map|wasm)$/
const LAST_NAME = /([^/]*)$/
/** Before the extension, or before `.js.map`. */
const LONG_HEX = /[-._]([0-9a-f]{8,64})(?:\.[a-z0-9]+){1,3}$/
const EIGHT = /[-._]([\w-]{8})(?:\.[a-z0-9]+){1,2}$/i
const isHex = (text: string): boolean => /\d/.test(text) && /[a-f]/.test(text)

/** True for a hash of eight characters as bundlers write it, but not for a word or date. */
function isShortHash(text: string): boolean {
  if (/^[A-Z2-7]{8}$/.test(text)) return true
  if (!/[a-z]/.test(text) || !/[A-Z]/.test(text)) return false
  return /\d/.test(text) || (text.slice(1).match(/[A-Z]/g)?.length ?? 0) > 1
}

/**
 * True if a file's name changes with its content, so that it may be cached for ever, and may still be requested after a newer
 * deployment: `app.3f2a9c1b.js`, `index-BdF3k2Lq.css`, `_astro/…`. Never true for a page.
 *
 * path: with or without the leading slash. False in doubt: a date, a version and a word are not hashes.
 */
export function isHashedPath(path: string): boolean {
  if (path.endsWith('/') || /\.html?$/.test(path)) return false
  if (HASHED_FOLDER.test(path)) return true
  const name = LAST_NAME.exec(path)?.[1] ?? ''
  const hex = LONG_HEX.exec(name)?.[1]
  if (hex !== undefined && isHex(hex)) return true
  if (!BUILD_MADE.test(name) && !ASSETS_FOLDER.test(path)) return false
  const short = EIGHT.exec(name)?.[1]
  return short !== undefined && isShortHash(short)
}
