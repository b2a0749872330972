import { createServer } from 'node:http'
import { apiKey, emptyTrash, Platform } from '@platform/sdk'
import { file } from '@platform/sdk/node'
import { uploadObject } from '@platform/sdk/uploads'
import { readSettings } from './settings.ts'

// A program that stores a file by the SDK, once for each POST.

const { port, baseUrl, id, secret, applicationId, path } = readSettings(
  'baseUrl',
  'id',
  'secret',
  'applicationId',
  'path',
)
const platform = new Platform({ baseUrl, credential: apiKey({ id, secret }) })

createServer((request, response) => {
  void (async () => {
    const place = { applicationId, environment: 'production', bucket: 'bench' }
    if (request.method === 'POST') {
      await uploadObject(platform, { ...place, key: 'large', data: await file(path) })
      // The one before counts towards the quota until it is gone.
      await emptyTrash(platform, place)
    }
    response.end()
  })().catch((error: Error) => response.writeHead(500).end(error.message))
}).listen(port, '127.0.0.1')
