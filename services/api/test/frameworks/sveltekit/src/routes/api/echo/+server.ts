export const GET = ({ url }) => Response.json({ method: 'GET', query: Object.fromEntries(url.searchParams) })

export const POST = async ({ request }) =>
  Response.json({ method: 'POST', bytes: (await request.text()).length }, { status: 201 })
