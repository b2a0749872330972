import type { APIRoute } from 'astro'

export const GET: APIRoute = ({ url }) => Response.json({ method: 'GET', query: Object.fromEntries(url.searchParams) })

export const POST: APIRoute = async ({ request }) =>
  Response.json({ method: 'POST', bytes: (await request.text()).length }, { status: 201 })
