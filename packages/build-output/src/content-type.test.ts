import { describe, expect, test } from 'vitest'
import { contentTypeOf, openContentTypes } from './content-type.ts'

describe('the type of a file', () => {
  test.each([
    ['favicon.ico', 'image/vnd.microsoft.icon'],
    ['hand.cur', 'image/x-icon'],
    ['font.eot', 'application/vnd.ms-fontobject'],
    ['live.m3u8', 'application/vnd.apple.mpegurl'],
    ['film.m4v', 'video/x-m4v'],
    ['song.flac', 'audio/flac'],
    ['letter.docx', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
    ['sums.xlsx', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'],
    ['talk.pptx', 'application/vnd.openxmlformats-officedocument.presentationml.presentation'],
    ['app.apk', 'application/vnd.android.package-archive'],
    ['chair.usdz', 'model/vnd.usdz+zip'],
    ['source.tgz', 'application/gzip'],
    ['source.tar.gz', 'application/gzip'],
    ['all.7z', 'application/x-7z-compressed'],
    ['notebook.ipynb', 'application/x-ipynb+json'],
    ['tiles/1/2/3.pbf', 'application/x-protobuf'],
    ['block.crx', 'application/x-chrome-extension'],
    ['block.xpi', 'application/x-xpinstall'],
    ['run.wasm', 'application/wasm'],
    ['photo.avif', 'image/avif'],
    ['FAVICON.ICO', 'image/vnd.microsoft.icon'],
    ['app.ts', 'text/plain; charset=utf-8'],
    ['app.mts', 'text/plain; charset=utf-8'],
    ['app.cts', 'text/plain; charset=utf-8'],
    ['app.tsx', 'text/plain; charset=utf-8'],
    ['index.html', 'text/html; charset=utf-8'],
    ['app.js', 'text/javascript; charset=utf-8'],
    ['data.json', 'application/json; charset=utf-8'],
    ['a.constructor', 'application/octet-stream'],
    ['.ico/README', 'application/octet-stream'],
    ['ico', 'application/octet-stream'],
  ])('the type of %s is %s', (path, expected) => {
    expect(contentTypeOf(path)).toBe(expected)
    expect(openContentTypes([path])(path)).toBe(expected)
  })
})

describe('a file named .ts', () => {
  const video = 'video/mp2t'
  const text = 'text/plain; charset=utf-8'
  test.each([
    ['a playlist in its folder', ['v/live.m3u8'], 'v/1.ts', video],
    ['a playlist at the root', ['live.m3u8'], '1.ts', video],
    ['a playlist some folders above', ['v/LIVE.M3U8'], 'v/720p/a/1.TS', video],
    ['a playlist in a folder beside its own', ['v/live.m3u8'], 'vv/1.ts', text],
    ['a playlist in a folder below its own', ['v/a/live.m3u8'], 'v/1.ts', text],
    ['no playlist', ['index.html'], '1.ts', text],
  ])('in a site with %s (%j) the type of %s is %s', (_, others, path, expected) => {
    expect(openContentTypes([path, ...others])(path)).toBe(expected)
  })
})
