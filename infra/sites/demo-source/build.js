import { mkdirSync, writeFileSync } from 'node:fs'

mkdirSync('dist')
writeFileSync('dist/index.html', `<!doctype html><title>Built</title><p>Built with Node ${process.versions.node}</p>\n`)
console.log('Wrote dist/index.html')
