import { expect, test } from 'vitest'
import { isHashedPath } from './hashed-path.ts'

test.each([
  'app.3f2a9c1b.js',
  '/app.3f2a9c1b.js',
  'app.3f2a9c1b.js.map',
  'main-3f2a9c1b4d5e6f70.css',
  'index-BdF3k2Lq.css',
  'assets/index-DqWxYzAb.js',
  'assets/logo-BdF3k2Lq.svg',
  'chunk-6WBLBDBT.js',
  'chunk-ABCDEFGH.mjs',
  'static/media/font.3f2a9c1b4d5e.woff2',
  'photo.3f2a9c1b.png',
  '_app/immutable/start.js',
  'base/_app/immutable/start.js',
  '_next/static/build-id/_buildManifest.js',
  '_astro/x.css',
  '_nuxt/x.js',
])('%s changes its name with its content', (path) => {
  expect(isHashedPath(path)).toBe(true)
})

test.each([
  '',
  '/',
  'index.html',
  '_astro/index.html',
  'page.3f2a9c1b.html',
  'app.js',
  'jquery-3.7.1.min.js',
  'bootstrap-5.3.0.js',
  'report-20240131.pdf',
  'app-20240131.js',
  'lib-document.js',
  'lib-Document.js',
  'script-backup01.js',
  'photo-BdF3k2Lq.png',
  'deadbeef.js',
  'x-deadbeef.js',
  '_next/image',
  'my_next/static.js',
])('%s does not', (path) => {
  expect(isHashedPath(path)).toBe(false)
})
