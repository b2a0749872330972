import type { NextApiRequest, NextApiResponse } from 'next'
import { addressIn } from '../../address'

export default function handler(request: NextApiRequest, response: NextApiResponse) {
  const { url, query } = request
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)])
  const address = addressIn(new Headers(headers), { url: String(url) })
  if (query.to !== undefined) response.redirect(307, address.forwarded + String(query.to))
  else response.json(address)
}
