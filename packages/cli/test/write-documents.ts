import { writeFile } from 'node:fs/promises'
import { writtenDocuments } from './documents.ts'

for (const [path, text] of await writtenDocuments()) await writeFile(new URL(`../../../${path}`, import.meta.url), text)
