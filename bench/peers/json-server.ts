import { createServer } from 'node:http'
import { readSettings } from './settings.ts'

// Answers one organization to everybody, so that those who ask can be compared.

const { port } = readSettings()
const answer = JSON.stringify({
  id: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
  name: 'Bench',
  slug: 'bench',
  imageUrl: null,
})
createServer((_, response) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end(answer)
}).listen(port, '127.0.0.1')
