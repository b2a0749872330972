import type { NextApiRequest, NextApiResponse } from 'next'

export default async function handler(request: NextApiRequest, response: NextApiResponse) {
  await response.revalidate(String(request.query.path))
  response.json({ revalidated: true })
}
