import type { NextApiRequest, NextApiResponse } from 'next'

export default function handler(request: NextApiRequest, response: NextApiResponse) {
  if (request.method !== 'GET' && request.method !== 'POST')
    return response.status(405).setHeader('allow', 'GET, POST').end()
  response.json({ hello: request.query.name ?? 'world', body: request.body ?? null, cookies: request.cookies })
}
