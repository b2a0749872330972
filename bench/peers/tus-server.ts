import { FileStore } from '@tus/file-store'
import { Server } from '@tus/server'
import { createServer } from 'node:http'
import { readSettings } from './settings.ts'

// @tus/server on its file store, as its documentation shows it: one process, no checksum, nothing synced.

const { port, folder } = readSettings('folder')
const tus = new Server({ path: '/files', datastore: new FileStore({ directory: folder }) })
createServer((req, res) => void tus.handle(req, res)).listen(port, '127.0.0.1')
